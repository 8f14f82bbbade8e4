-- dump.lua - the Python program that parses Python scripts for the porter. It prints each script's
-- syntax tree and comments as one line of JSON. The nodes are one flat list and refer to their
-- children by position, so that deep expressions do not nest the JSON.
--
--    {"nodes": [{"_": "Name", "line": 1, "last": 1, "col": 0, "id": "x"}, ...],
--     "root": {"n": 12}, "comments": [{"line": 1, "col": 0, "text": " why", "own": true}],
--     "blank": [2, 5]}
--
-- A child is {"n": position}, a missing child (such as a key of `{**d}`) {"none": true}. `blank`
-- lists the blank lines. A syntax error is {"error": message, "line": line}; a file that cannot be
-- read has no line.

return [==[
import ast, io, json, re, sys, tokenize

nodes = []
lines = []

written = re.compile(r"(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$|0[xX][0-9a-fA-F]+$")

def constant(value, node):
    kinds = {bool: "bool", int: "int", float: "float", str: "str", bytes: "bytes"}
    if value is None:
        return {"kind": "none", "text": ""}
    if value is Ellipsis:
        return {"kind": "ellipsis", "text": ""}
    kind = kinds.get(type(value), "other")
    if kind == "bytes":
        value = value.decode("latin-1")
    if isinstance(value, str):
        return {"kind": kind, "text": value}
    # Numbers stay as they are written, where Lua writes them alike.
    source = lines[node.lineno - 1][node.col_offset:node.end_col_offset].decode()
    alike = kind in ("int", "float") and written.match(source)
    return {"kind": kind, "text": source if alike else repr(value)}

def encode(value):
    if isinstance(value, ast.AST):
        return {"n": add(value)}
    if isinstance(value, list):
        return [encode(item) for item in value]
    if value is None:
        return {"none": True}
    return value

def add(node):
    # Python before 3.9 wraps what stands in brackets.
    while type(node).__name__ == "Index":
        node = node.value
    row = {"_": type(node).__name__}
    if type(node).__name__ == "ExtSlice":
        row = {"_": "Tuple", "elts": [encode(item) for item in node.dims]}
    elif isinstance(node, ast.Constant):
        row.update(constant(node.value, node))
    else:
        for name, value in ast.iter_fields(node):
            if value is not None and name not in ("ctx", "type_comment", "kind"):
                row[name] = encode(value)
    if hasattr(node, "lineno"):
        row["line"], row["col"] = node.lineno, node.col_offset
        row["last"] = getattr(node, "end_lineno", None) or node.lineno
        for decorator in getattr(node, "decorator_list", []):
            row["first"] = min(row.get("first", node.lineno), decorator.lineno)
    nodes.append(row)
    return len(nodes)

def comments(text):
    found = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            line, column = token.start
            own = token.line[:column].strip() == ""
            found.append({"line": line, "col": column, "text": token.string[1:], "own": own})
    return found

def read(path):
    nodes.clear()
    lines.clear()
    try:
        with tokenize.open(path) as file:
            text = file.read()
        lines.extend(line.encode() for line in text.split("\n"))
        root = {"n": add(ast.parse(text, path))}
        blank = [i + 1 for i, line in enumerate(text.split("\n")) if line.strip() == ""]
        answer = {"nodes": nodes, "root": root, "comments": comments(text), "blank": blank}
    except OSError as error:
        answer = {"error": error.strerror or str(error)}
    except (SyntaxError, UnicodeDecodeError, ValueError, tokenize.TokenError) as error:
        line = getattr(error, "lineno", None) or 1
        answer = {"error": getattr(error, "msg", None) or str(error), "line": line}
    return json.dumps(answer)

sys.setrecursionlimit(20000)
for path in sys.argv[1:]:
    print(read(path))
]==]
