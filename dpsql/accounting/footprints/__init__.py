"""What releases cost each person, cell by cell, and the most that anybody has lost."""
