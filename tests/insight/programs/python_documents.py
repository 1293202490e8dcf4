"""Documents in Python: what parsing makes dies with the document. Functions of Python are seen with -X perf only; of
the interpreter's own, the call of json's scanner is the turn."""
import json

TEXT = json.dumps({"rows": [{"id": i, "name": "name %d" % i, "tags": ["a%d" % i, "b"]} for i in range(300)]})


def handle_document():
    return sum(len(row["name"]) for row in json.loads(TEXT)["rows"])


print(sum(handle_document() for _ in range(60)))
