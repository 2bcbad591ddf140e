"""What models are made and trained with."""
