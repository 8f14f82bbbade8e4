-- cd rocks/torch7 && luarocks --lua-version 5.4 make
rockspec_format = "3.0"
package = "tlua-torch7"
version = "scm-1"
source = {url = "git+file://."}
description = {
   summary = "Torch7: its torch, nn, optim, nngraph and image, and its files, for programs of its time",
   license = "MIT",
}
dependencies = {"lua ~> 5.4", "tlua"}
build = {
   type = "builtin",
   modules = {
      ["tlua.torch7"] = "init.lua",
      ["tlua.torch7.Module"] = "Module.lua",
      ["tlua.torch7.arithmetic"] = "arithmetic.lua",
      ["tlua.torch7.classes"] = "classes.lua",
      ["tlua.torch7.cmdline"] = "cmdline.lua",
      ["tlua.torch7.containers"] = "containers.lua",
      ["tlua.torch7.copying"] = "copying.lua",
      ["tlua.torch7.cutorch"] = "cutorch.lua",
      ["tlua.torch7.dispatch"] = "dispatch.lua",
      ["tlua.torch7.files"] = "files.lua",
      ["tlua.torch7.gnuplot"] = "gnuplot.lua",
      ["tlua.torch7.image"] = "image.lua",
      ["tlua.torch7.loading"] = "loading.lua",
      ["tlua.torch7.maths"] = "maths.lua",
      ["tlua.torch7.methods"] = "methods.lua",
      ["tlua.torch7.mode"] = "mode.lua",
      ["tlua.torch7.nn"] = "nn.lua",
      ["tlua.torch7.nn_containers"] = "nn_containers.lua",
      ["tlua.torch7.nn_convolution"] = "nn_convolution.lua",
      ["tlua.torch7.nn_criterion"] = "nn_criterion.lua",
      ["tlua.torch7.nn_jacobian"] = "nn_jacobian.lua",
      ["tlua.torch7.nn_simple"] = "nn_simple.lua",
      ["tlua.torch7.nn_table"] = "nn_table.lua",
      ["tlua.torch7.nngraph"] = "nngraph.lua",
      ["tlua.torch7.optim"] = "optim.lua",
      ["tlua.torch7.optim_population"] = "optim_population.lua",
      ["tlua.torch7.optim_records"] = "optim_records.lua",
      ["tlua.torch7.optim_search"] = "optim_search.lua",
      ["tlua.torch7.paths"] = "paths.lua",
      ["tlua.torch7.printing"] = "printing.lua",
      ["tlua.torch7.random"] = "random.lua",
      ["tlua.torch7.serialization"] = "serialization.lua",
      ["tlua.torch7.shapes"] = "shapes.lua",
      ["tlua.torch7.start"] = "start.lua",
      ["tlua.torch7.streams"] = "streams.lua",
      ["tlua.torch7.sys"] = "sys.lua",
      ["tlua.torch7.tables"] = "tables.lua",
      ["tlua.torch7.tensor"] = "tensor.lua",
      ["tlua.torch7.tester"] = "tester.lua",
      ["tlua.torch7.timing"] = "timing.lua",
      ["tlua.torch7.torch"] = "torch.lua",
      ["tlua.torch7.types"] = "types.lua",
      ["tlua.torch7.xlua"] = "xlua.lua",
   },
}
