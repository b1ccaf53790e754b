"""Earlier releases: what follows from them for a new question, by least squares."""
