"""One open turn: the pure state machine, its driver, the model call, guards."""
