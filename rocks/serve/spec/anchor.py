# anchor.py - the simplest server of load.lua's network with onnxruntime and uvicorn: 256 bytes in, 40 bytes out.
#
#   pip install onnxruntime 'uvicorn[standard]' numpy
#   build/tlua -e 'torch.onnx.export(nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)):eval(),
#      {torch.rand(1, 64)}, "digits.onnx", {dynamic_axes = {input = {1}}})'
#   python rocks/serve/spec/anchor.py digits.onnx 8766 &
#   wrk -t1 -c64 -d5 -s post.lua http://127.0.0.1:8766/     # post.lua: wrk.method = "POST"; wrk.body = ("\0\0\0\63"):rep(64)
import sys
import numpy as np
import onnxruntime
import uvicorn

options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession(sys.argv[1], options)
name = session.get_inputs()[0].name


async def app(scope, receive, send):
    assert scope["type"] == "http"
    body = (await receive())["body"]
    scores = session.run(None, {name: np.frombuffer(body, np.float32).reshape(-1, 64)})[0]
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % scores.nbytes)]})
    await send({"type": "http.response.body", "body": scores.tobytes()})


uvicorn.run(app, port=int(sys.argv[2]), log_level="warning", access_log=False, lifespan="off")
