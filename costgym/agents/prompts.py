"""The words in which agents are told things. A model reads them; the simulated one reads the marked lines and nothing else."""

INSTRUCTIONS = (
    "You answer the user's request with the help of functions. Call a function, read what it returns, and go on until you "
    "have every fact that was asked for; then call finish with the complete answer. If the request cannot be met, call finish "
    "and give up. A function that fails may have a counterpart that works."
)
SUMMARY = "Write the final answer to the user's request from the function results below. Say what they show and nothing else."
CUT = "Your last reply was cut off because it was too long. Write a shorter one."
NUDGE = "That was no function call. Call a function, or finish."
NAMES = "Functions that can be registered: "
DESCRIPTIONS = "Functions that can be registered, with what they do:"
COSTS = "Cost of one call: "
REMAINING = "Remaining budget: "
REMOVED = "These functions may not be called any more: "
LEFT = "How often functions may still be called: "
NEWS = "News: "
STATUS = "Status.\n"  # before what stands at the end of a request and in no later one
COMPACTED = "What was done and found so far: "
TRIED = "From here these steps were tried already; do something different: "
PLAN = (
    "Before you act, write a plan: a JSON object with one key, plan, whose value is the list of the names of the functions to "
    "call, in order."
)
VOTE = "Which of the two steps brings the answer closer? Compare them, then end your reply with the letter A or B."
STEP_A, STEP_B = "Step A: ", "\nStep B: "
NO_PLAN_GO_ON = "No plan could be read from that. Go on without one."
NO_PLAN = "No plan could be read from that. Write the JSON object alone."
