"""What is done to a text before it is spoken: cleaned, split, and its numbers written as words."""
