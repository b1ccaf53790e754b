"""What a statement is answered with: earlier answers, one's own and others', and what is bought."""
