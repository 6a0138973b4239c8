"""What networks learn from images, and the shape of their loss around them."""
