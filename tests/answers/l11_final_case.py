"""Claims about the sealed models of lesson 11: wrong ones, with what they hear; what is right, the solutions have."""

WRONG = {
    "state at least one thing": lambda: [],
    "return a list of sentences": lambda: "1.2 matters",
    "Say “1.2 matters”": lambda: ["1.2 is an induction head"],
    "Say “1.2 looks 5 back”, “… at the same token”": lambda: ["1.2 looks one back"],
    "through its keys”, or queries, or values": lambda: ["1.2 needs 0.3"],
    "is none of them": lambda: ["1.4 matters"],
    "only a head of an earlier layer": lambda: ["0.1 needs 1.2 through its keys"],
    "of 8 statements false": lambda: [f"{layer}.{head} does not matter" for layer in (0, 1) for head in range(4)],
    "of 4 statements false": lambda: [f"1.{head} looks right after the same token" for head in range(4)],
}

RIGHT_ANSWERS: dict[str, dict] = {}
WRONG_ANSWERS = {f"case_{number}": WRONG for number in range(1, 9)}
