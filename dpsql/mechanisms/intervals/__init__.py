"""How far answers may be off: the laws of noise, and of what is made of noisy sums."""
