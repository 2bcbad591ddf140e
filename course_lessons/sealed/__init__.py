"""The sealed models of lessons 11 and 11b: what makes them, opens them, and judges hypotheses."""
