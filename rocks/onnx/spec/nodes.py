# nodes.py - writes the node tests of the ONNX standard (package onnx) as folders, for nodes.lua:
#
#    python rocks/onnx/spec/nodes.py FOLDER
#
# makes FOLDER/NAME/model.onnx and FOLDER/NAME/test_data_set_0/input_0.pb, output_0.pb, ...
import os
import sys

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases


def write(path, value, info):
    kind = info.type.WhichOneof("value")
    if isinstance(value, (onnx.TensorProto, onnx.SequenceProto, onnx.OptionalProto)):
        proto = value
    elif kind == "sequence_type":
        proto = numpy_helper.from_list(value, info.name)
    elif kind == "optional_type":
        proto = numpy_helper.from_optional(value, info.name)
    else:
        proto = numpy_helper.from_array(np.asarray(value), info.name)
    with open(path, "wb") as file:
        file.write(proto.SerializeToString())


cases = collect_testcases(None)
for case in cases:
    folder = os.path.join(sys.argv[1], case.name)
    os.makedirs(folder, exist_ok=True)
    onnx.save(case.model, f"{folder}/model.onnx")
    for k, (inputs, outputs) in enumerate(case.data_sets):
        inner = f"{folder}/test_data_set_{k}"
        os.makedirs(inner, exist_ok=True)
        for i, (value, info) in enumerate(zip(inputs, case.model.graph.input)):
            write(f"{inner}/input_{i}.pb", value, info)
        for i, (value, info) in enumerate(zip(outputs, case.model.graph.output)):
            write(f"{inner}/output_{i}.pb", value, info)
print(len(cases), "node tests")
