"""The wall: the only place where true counts exist; they leave it noisy and paid for."""
