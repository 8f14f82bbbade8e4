# compare_triton.py - tests a server with the package tritonclient, and compares the results with NumPy's.
#
#   pip install 'tritonclient[http]'
#   build/tlua rocks/serve/spec/models.lua /tmp/models
#   build/tlua serve /tmp/models --port 8000 &
#   python rocks/serve/spec/compare_triton.py 8000 [rocks/serve/spec/fixtures/tritonclient.jsonl]
#
# With a second argument, writes the requests to that file; spec/serve_spec.lua repeats them.
import sys
import ml_dtypes
import numpy as np
import tritonclient.http as triton
from tritonclient.utils import InferenceServerException
from recorder import Recorder

recorder = Recorder(int(sys.argv[1]))
client = triton.InferenceServerClient(f"127.0.0.1:{recorder.port}")
names, checks = [], 0


def named(name):
    names.append(name)


def check(condition, what):
    global checks
    assert condition, what
    checks += 1


def refused(name, text, call):
    named(name)
    try:
        call()
    except InferenceServerException as e:
        return check(text in str(e.message()), (name, str(e.message())))
    raise AssertionError(name + ": expected an error")


def tensor(name, values, binary=True):
    kinds = {"float32": "FP32", "float64": "FP64", "float16": "FP16", "bool": "BOOL"}
    kind = kinds.get(str(values.dtype), str(values.dtype).upper())
    out = triton.InferInput(name, list(values.shape), kind)
    out.set_data_from_numpy(values, binary_data=binary)
    return out


named("live"), check(client.is_server_live(), "live")
named("ready"), check(client.is_server_ready(), "ready")
named("model ready"), check(client.is_model_ready("addsub"), "model ready")
named("version ready"), check(client.is_model_ready("addsub", "1"), "version ready")
named("unknown model ready"), check(not client.is_model_ready("nothing"), "unknown")
named("unknown version ready"), check(not client.is_model_ready("addsub", "7"), "unknown")
named("server"), check("model_repository" in client.get_server_metadata()["extensions"], "server")
named("metadata")
about = client.get_model_metadata("addsub")
check(about["inputs"] == [{"name": n, "datatype": "FP32", "shape": [-1, 3]} for n in "ab"], about)
named("config")
config = client.get_model_config("addsub")
check(config["max_batch_size"] == 32 and config["input"][0]["dims"] == [3], config)
named("index")
check({"addsub", "mlp", "kinds"} <= {m["name"] for m in client.get_model_repository_index()}, "index")

a, b = np.array([[1, 2, 3.5], [-1e-3, 1e20, 0]], "float32"), np.array([[4, 5, 6], [7, 8, 9]], "float32")
for binary_in in (True, False):
    for binary_out in (True, False):
        named(f"addsub in {binary_in} out {binary_out}")
        outputs = [triton.InferRequestedOutput(n, binary_data=binary_out) for n in ("diff", "sum")]
        result = client.infer("addsub", [tensor("b", b, binary_in), tensor("a", a, binary_in)], outputs=outputs,
                              request_id="q7")
        check(np.array_equal(result.as_numpy("sum"), a + b), "sum")
        check(np.array_equal(result.as_numpy("diff"), a - b), "diff")
        check(result.get_response()["id"] == "q7", "id")
        check([o["name"] for o in result.get_response()["outputs"]] == ["diff", "sum"], "order")
named("mixed")
result = client.infer("addsub", [tensor("a", a, True), tensor("b", b, False)])
check(np.array_equal(result.as_numpy("sum"), a + b), "mixed")
named("gzip")
result = client.infer("addsub", [tensor("a", a), tensor("b", b)], request_compression_algorithm="gzip")
check(np.array_equal(result.as_numpy("sum"), a + b), "gzip")
named("deflate")
result = client.infer("addsub", [tensor("a", a), tensor("b", b)], request_compression_algorithm="deflate",
                      response_compression_algorithm="gzip")
check(np.array_equal(result.as_numpy("sum"), a + b), "deflate")
refused("no rows", "a: expected a size of at least 1 in dimension 1",
        lambda: client.infer("addsub", [tensor("a", a[:0]), tensor("b", b[:0], False)]))
named("version")
result = client.infer("addsub", [tensor("a", a), tensor("b", b)], model_version="1")
check(result.get_response()["model_version"] == "1", "version")

kinds = {
    "float32": [0.1, -3e38, 1e-40], "float64": [0.1, -1e300, 5e-324], "float16": [0.5, -65504, 6e-8],
    "int8": [-128, 0, 127], "int16": [-32768, 0, 32767], "int32": [-2**31, 0, 2**31 - 1],
    "int64": [-2**63, 2**53 + 1, 2**63 - 1], "uint8": [0, 128, 255], "bool": [True, False, True]}
values = {k: np.array(v, k) for k, v in kinds.items()}
for binary in (True, False):
    named(f"kinds binary {binary}")
    # the client itself sends 16-bit floats in no other way
    inputs = [tensor(k, v, binary or k == "float16") for k, v in values.items()]
    outputs = [triton.InferRequestedOutput(k, binary_data=binary or k == "float16") for k in kinds]
    result = client.infer("kinds", inputs, outputs=outputs)
    for k, v in values.items():
        check(np.array_equal(result.as_numpy(k), v) and result.as_numpy(k).dtype == v.dtype, (k, result.as_numpy(k)))

more = {"bfloat16": (np.array([[0.5, -3.0, 2.0**-126]], ml_dtypes.bfloat16), "BF16"),
        "uint16": (np.array([[0, 1, 65535]], "uint16"), "UINT16"),
        "uint32": (np.array([[0, 1, 2**32 - 1]], "uint32"), "UINT32"),
        "uint64": (np.array([[0, 2**63, 2**64 - 1]], "uint64"), "UINT64")}
for binary in (True, False):
    named(f"more binary {binary}")
    inputs = []
    for name, (x, kind) in more.items():
        inputs.append(triton.InferInput(name, list(x.shape), kind))
        inputs[-1].set_data_from_numpy(x, binary_data=binary or kind == "BF16")
    outputs = [triton.InferRequestedOutput(k, binary_data=binary or k == "bfloat16") for k in more]
    result = client.infer("more", inputs, outputs=outputs)
    for name, (x, _) in more.items():
        check(np.array_equal(result.as_numpy(name), x), (name, result.as_numpy(name)))

words = ["Ä b", "", "a\nb\0\"data\":[1]", "tlua", "日本"]
for binary_in in (True, False):
    for binary_out in (True, False):
        named(f"texts in {binary_in} out {binary_out}")
        text = triton.InferInput("text", [len(words)], "BYTES")
        text.set_data_from_numpy(np.array(words, dtype=object), binary_data=binary_in)
        times = tensor("times", np.array([2], "int64"), binary_out)
        outputs = [triton.InferRequestedOutput(n, binary_data=binary_out) for n in ("upper", "bytes")]
        result = client.infer("texts", [text, times], outputs=outputs)
        upper = [x if isinstance(x, str) else x.decode() for x in result.as_numpy("upper").reshape(-1)]
        # Lua changes the letters of ASCII alone
        expected = ["".join(c.upper() if c.isascii() else c for c in w) * 2 for w in words]
        check(upper == expected and result.as_numpy("upper").shape == (5, 1), upper)
        check(result.as_numpy("bytes").tolist() == [len(w.encode()) for w in words], "bytes")
named("no texts")
text = triton.InferInput("text", [0], "BYTES")
text.set_data_from_numpy(np.array([], dtype=object))
result = client.infer("texts", [text, times])
check(result.as_numpy("upper").size == 0 and result.as_numpy("bytes").size == 0, "no texts")
named("bytes that are not UTF-8")
text = triton.InferInput("text", [2], "BYTES")
text.set_data_from_numpy(np.array([b"\xff\x00", b"a"], dtype=object))
result = client.infer("texts", [text, times])
check(result.as_numpy("upper").reshape(-1).tolist() == [b"\xff\x00" * 2, b"AA"], result.as_numpy("upper"))
refused("not UTF-8 in JSON", "output upper has texts that are not UTF-8", lambda: client.infer(
    "texts", [text, times], outputs=[triton.InferRequestedOutput("upper", binary_data=False)]))
refused("numbers for texts", "input text: expected the datatype BYTES, got FP32", lambda: client.infer(
    "texts", [tensor("text", np.zeros(2, "float32")), times]))
refused("texts for numbers", "input times: expected the datatype INT64, got BYTES", lambda: client.infer(
    "texts", [text, triton.InferInput("times", [1], "BYTES").set_data_from_numpy(np.array(["1"], dtype=object))]))
refused("two axes", "input text: expected the shape [-1], got [1,2]", lambda: client.infer(
    "texts", [triton.InferInput("text", [1, 2], "BYTES").set_data_from_numpy(np.array([["a", "b"]], dtype=object)), times]))

named("statistics")
stats = client.get_inference_statistics("addsub")["model_stats"][0]
check(stats["inference_stats"]["success"]["count"] >= 7, stats)

x = np.zeros((1, 3), "float32")
refused("missing input", "input b is missing", lambda: client.infer("addsub", [tensor("a", x)]))
refused("unknown input", "unexpected input",
        lambda: client.infer("addsub", [tensor("c", x), tensor("b", x)]))
refused("wrong datatype", "input a: expected the datatype FP32, got FP64",
        lambda: client.infer("addsub", [tensor("a", x.astype("float64")), tensor("b", x)]))
refused("wrong shape", "input a: expected the shape [-1,3], got [1,4]",
        lambda: client.infer("addsub", [tensor("a", np.zeros((1, 4), "float32")), tensor("b", x)]))
refused("two sizes", "dimension 1: expected",
        lambda: client.infer("addsub", [tensor("a", np.zeros((2, 3), "float32")), tensor("b", x)]))
refused("unknown output", "unexpected output",
        lambda: client.infer("addsub", [tensor("a", x), tensor("b", x)], outputs=[triton.InferRequestedOutput("y")]))
refused("classification", "classification", lambda: client.infer(
    "addsub", [tensor("a", x), tensor("b", x)], outputs=[triton.InferRequestedOutput("sum", class_count=2)]))
refused("unknown model", "unknown model", lambda: client.infer("nothing", [tensor("a", x)]))

named("unload"), client.unload_model("mlp")
named("unloaded"), check(not client.is_model_ready("mlp"), "unloaded")
refused("infer unloaded", "unknown model", lambda: client.infer("mlp", [tensor("input", np.zeros((1, 64), "float32"))]))
named("load"), client.load_model("mlp")
named("loaded"), check(client.is_model_ready("mlp"), "loaded")
named("load again"), client.load_model("mlp")
refused("load unknown", "no such model", lambda: client.load_model("nothing"))

if len(sys.argv) > 2:
    recorder.save(sys.argv[2], names)
print(f"tritonclient: {checks} checks passed")
