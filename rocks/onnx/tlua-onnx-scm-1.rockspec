-- cd rocks/onnx && luarocks --lua-version 5.4 make
rockspec_format = "3.0"
package = "tlua-onnx"
version = "scm-1"
source = {url = "git+file://."}
description = {
   summary = "ONNX: models of others come in, and models that are trained here go out",
   license = "MIT",
}
dependencies = {"lua ~> 5.4", "tlua"}
build = {
   type = "builtin",
   modules = {
      ["tlua.onnx.layer_translations"] = "layer_translations.lua",
      ["tlua.onnx.translations"] = "translations.lua",
      ["tlua.onnx.pool_translations"] = "pool_translations.lua",
      ["tlua.onnx.export"] = "export.lua",
      ["tlua.onnx.Builder"] = "Builder.lua",
      ["tlua.onnx.Module"] = "Module.lua",
      ["tlua.onnx.Node"] = "Node.lua",
      ["tlua.onnx.attention"] = "attention.lua",
      ["tlua.onnx.control"] = "control.lua",
      ["tlua.onnx.graph"] = "graph.lua",
      ["tlua.onnx.indexing"] = "indexing.lua",
      ["tlua.onnx"] = "init.lua",
      ["tlua.onnx.layers"] = "layers.lua",
      ["tlua.onnx.learning"] = "learning.lua",
      ["tlua.onnx.logic"] = "logic.lua",
      ["tlua.onnx.losses"] = "losses.lua",
      ["tlua.onnx.marks"] = "marks.lua",
      ["tlua.onnx.math"] = "math.lua",
      ["tlua.onnx.norms"] = "norms.lua",
      ["tlua.onnx.operators"] = "operators.lua",
      ["tlua.onnx.pools"] = "pools.lua",
      ["tlua.onnx.preview"] = "preview.lua",
      ["tlua.onnx.quantization"] = "quantization.lua",
      ["tlua.onnx.random"] = "random.lua",
      ["tlua.onnx.recurrent"] = "recurrent.lua",
      ["tlua.onnx.reductions"] = "reductions.lua",
      ["tlua.onnx.resize"] = "resize.lua",
      ["tlua.onnx.schema"] = "schema.lua",
      ["tlua.onnx.shape_translations"] = "shape_translations.lua",
      ["tlua.onnx.shapes"] = "shapes.lua",
      ["tlua.onnx.signal"] = "signal.lua",
      ["tlua.onnx.support"] = "support.lua",
      ["tlua.onnx.texts"] = "texts.lua",
      ["tlua.onnx.training"] = "training.lua",
      ["tlua.onnx.values"] = "values.lua",
      ["tlua.onnx.vision"] = "vision.lua",
      ["tlua.onnx.wire"] = "wire.lua",
   },
}
