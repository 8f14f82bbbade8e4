-- Tests torch.onnx.export: every layer of torch.nn that has a translation, the written file, and the errors for models
-- that cannot be exported. layers.py compares the same models with onnxruntime.

local shell = require "spec.support.shell"
local torch = require "tlua"
local layers = dofile "rocks/onnx/spec/layers.lua"
local schema = require "tlua.onnx.schema"
local wire = require "tlua.onnx.wire"

local nn = torch.nn

local function refused(text, ...)
   local arguments = table.pack(...)
   local fine, why = pcall(function() torch.onnx.export(table.unpack(arguments, 1, arguments.n)) end)
   assert.is_false(fine)
   assert.matches(text, why, 1, true)
end

local untranslated <const> = {MultiLabelMarginLoss = true, RotaryEmbedding = true}

describe("onnx.export", function()
   for _, opset in ipairs {17, 23} do
      it("writes the layers of nn, which load and give the same results, for version " .. opset, function()
         shell.with_folder(function(folder)
            local failures = {}
            for _, case in ipairs(layers.cases) do
               if not untranslated[case[1]] and not (case[1] == "Fold" and opset == 17) then
                  local why = layers.export(case, folder, opset)
                  if why then failures[#failures + 1] = case[1] .. ": " .. why end
               end
            end
            assert.equal("", table.concat(failures, "\n"))
            assert.is_true(#layers.cases > 190)
         end)
      end)
   end

   it("writes names, dynamic sizes and the version into the file", shell.in_folder(function(folder)
      local path = folder .. "/m.onnx"
      torch.onnx.export(nn.Linear(2, 3), {torch.ones(4, 2)}, path, {input_names = {"x"}, output_names = {"y"},
         dynamic_axes = {x = {[1] = "batch"}}, opset_version = 20})
      local proto = wire.read(wire.open(path), "ModelProto")
      assert.equal(20, proto.opset_import[1].version)
      assert.equal("tlua", proto.producer_name)
      local input, output = proto.graph.input[1], proto.graph.output[1]
      assert.equal("x", input.name)
      assert.equal("batch", input.type.tensor_type.shape.dim[1].dim_param)
      assert.equal(2, input.type.tensor_type.shape.dim[2].dim_value)
      assert.equal("y", output.name)
      assert.equal("batch", output.type.tensor_type.shape.dim[1].dim_param)
      local names = {}
      for _, tensor in ipairs(proto.graph.initializer) do names[tensor.name] = true end
      assert.is_true(names.weight and names.bias)
      assert.equal(1, schema.numbers.float32)
   end))

   it("writes weights into a second file, which moves with the first", shell.in_folder(function(folder)
      local model, x = nn.Linear(64, 64), torch.randn(2, 64)
      torch.onnx.export(model, {x}, folder .. "/m.onnx", {external_data = true})
      assert.is_true(#shell.read(folder .. "/m.onnx") < 2000)
      shell.ok(("mkdir %s/moved && mv %s/m.onnx %s/m.onnx.data %s/moved"):format(folder, folder, folder, folder))
      local loaded = torch.onnx.load(folder .. "/moved/m.onnx")
      assert.is_true(torch.allclose(loaded(x), model(x)))
   end))

   it("exports a model that was loaded, and a trained one", shell.in_folder(function(folder)
      local model, x = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)), torch.randn(5, 3)
      torch.onnx.export(model, {x}, folder .. "/a.onnx")
      local loaded = torch.onnx.load(folder .. "/a.onnx")
      local optimizer = torch.optim.SGD(loaded:parameters(), {lr = 0.5})
      loaded(x):pow(2):mean():backward()
      optimizer:step()
      torch.onnx.export(loaded, {x}, folder .. "/b.onnx", {input_names = {"input"}})
      assert.is_true(torch.allclose(torch.onnx.load(folder .. "/b.onnx")(x), loaded(x), {atol = 1e-6}))
      assert.is_false(torch.allclose(loaded(x), model(x)))
   end))

   it("exports operators that change results in place", shell.in_folder(function(folder)
      local model, x = nn.Sequential(nn.Linear(3, 4), nn.ReLU {inplace = true}, nn.Linear(4, 2)), torch.randn(5, 3)
      torch.onnx.export(model, {x}, folder .. "/a.onnx")
      assert.is_true(torch.allclose(torch.onnx.load(folder .. "/a.onnx")(x), model(x), {atol = 1e-6}))
      local function twice(y)
         local z = y * 2
         z:add_(1):mul_(3)
         return z, z + y
      end
      torch.onnx.export(twice, {x}, folder .. "/b.onnx")
      local loaded, expected = {torch.onnx.load(folder .. "/b.onnx")(x)}, {twice(x)}
      for i = 1, 2 do assert.is_true(torch.allclose(loaded[i], expected[i], {atol = 1e-6})) end
   end))

   it("keeps sizes dynamic that depend on several dynamic sizes", shell.in_folder(function(folder)
      local function fn(x, y)
         local z = x:narrow(1, 1, x:size(1) - y:size(1))
         return z:var(), z:unsqueeze(1):expand(2, -1):unsqueeze(3):repeat_interleave(2, 3), (z:sort())
      end
      torch.onnx.export(fn, {torch.arange(8.0), torch.ones(3)}, folder .. "/m.onnx", {input_names = {"x", "y"},
         dynamic_axes = {x = {[1] = {name = "n", min = 8, max = 32}}, y = {[1] = {name = "m", min = 1, max = 7}}}})
      local loaded = torch.onnx.load(folder .. "/m.onnx")
      for _, sizes in ipairs {{8, 3}, {9, 3}, {9, 4}, {32, 1}, {20, 6}} do
         local x, y = torch.arange(sizes[1] + 0.0), torch.ones(sizes[2])
         local got, expected = {loaded(x, y)}, {fn(x, y)}
         for i = 1, 3 do assert.is_true(torch.allclose(got[i], expected[i])) end
      end
   end))

   it("keeps sizes dynamic that are rounded quotients of one", shell.in_folder(function(folder)
      local function fn(x) return nn.functional.max_pool1d(x, 4):var() end
      torch.onnx.export(fn, {torch.randn(1, 2, 17)}, folder .. "/m.onnx", {input_names = {"x"},
         dynamic_axes = {x = {[3] = {name = "n", min = 4}}}})
      local loaded = torch.onnx.load(folder .. "/m.onnx")
      for n = 4, 40 do
         local x = torch.randn(1, 2, n)
         assert.is_true(torch.allclose(loaded(x), fn(x), {equal_nan = true}))
      end
   end))

   it("counts negative positions from the end, and refuses position 0 in the file", shell.in_folder(function(folder)
      local function int(list) return torch.tensor(list, {dtype = "int64"}) end
      local F = nn.functional
      local cases = {
         {function(x, i) return x[i] end, true}, {function(x, i) return x[{{}, i}] end, true},
         {function(x, i) return x[{i, i}] end, true}, {function(x, i) return x:index_select(1, i) end},
         {function(x, i) return F.embedding(i, x) end}, {function(x, i) return x + F.one_hot(i, 3) end},
         {function(x, i) return F.cross_entropy(x, i) end},
      }
      local x = torch.randn(3, 3)
      for _, case in ipairs(cases) do
         torch.onnx.export(case[1], {x, int {3, 1, 2}}, folder .. "/m.onnx", {input_names = {"x", "i"}})
         local loaded = torch.onnx.load(folder .. "/m.onnx")
         local function run(list) return pcall(loaded, table.unpack(#loaded:input_names() == 2 and {x, int(list)}
            or {int(list)})) end
         assert.is_true(torch.allclose(select(2, run {2, 3, 1}), case[1](x, int {2, 3, 1})))
         if case[2] then
            assert.is_true(select(2, run {-1, -3, 2}):equal(case[1](x, int {-1, -3, 2})))
         else
            assert.is_false((run {-1, 1, 2}))
         end
         for _, bad in ipairs {0, 4, -4} do
            local fine, why = run {1, 2, bad}
            assert.is_false(fine)
            assert.matches("indices: expected %-3 to 2, got", why)
         end
      end
   end))

   it("writes log1p and expm1 that are exact near 0", shell.in_folder(function(folder)
      local function fn(x) return torch.log1p(x), torch.expm1(x) end
      local list = {0, 0.5, -0.5, -1, 88, -100, math.huge, -math.huge, 0 / 0}
      for exponent = -38, 1, 0.37 do
         for _, sign in ipairs {1, -1} do list[#list + 1] = sign * 10 ^ exponent end
      end
      local x = torch.tensor(list)
      torch.onnx.export(fn, {x}, folder .. "/m.onnx")
      local got, exact = {torch.onnx.load(folder .. "/m.onnx")(x)}, {fn(x:double())}
      for i = 1, 2 do
         assert.is_true(torch.allclose(got[i]:double(), exact[i], {rtol = 1e-6, atol = 0, equal_nan = true}))
      end
   end))

   it("writes attention whose rows without a key are 0", shell.in_folder(function(folder)
      local attention = nn.functional.scaled_dot_product_attention
      local function fn(q, mask) return attention(q, q, q, {attn_mask = mask}) end
      local q = torch.randn(1, 1, 3, 4)
      local mask = torch.tensor {{true, false, false}, {false, false, false}, {true, true, true}}
      for _, given in ipairs {mask, torch.zeros(3, 3):masked_fill(~mask, -math.huge)} do
         torch.onnx.export(fn, {q, given}, folder .. "/m.onnx")
         local y = torch.onnx.load(folder .. "/m.onnx")(q, given)
         assert.same({0, 0, 0, 0}, y[{1, 1, 2}]:tolist())
         assert.is_true(torch.allclose(y, fn(q, given)))
      end
   end))

   it("writes torch.cond as If, nested and with views, for versions 17 and 23", shell.in_folder(function(folder)
      local one, other = nn.Linear(4, 4), nn.Linear(4, 4)
      local function fn(x)
         local v = x[{{}, {1, 2}}]
         local y, z = torch.cond(x:mean():gt(0), function(u)
            local inner = torch.cond(u[{1, 1}]:lt(0), function() return v + 1 end, function() return v * 2 end)
            return one(u):var({1}), inner
         end, function(u) return (other(u) + v:sum()):var({1}), v end, {x})
         return y + x:var({1}), z, torch.cond(x:sum():gt(0), torch.clone, torch.sin, {x}), v
      end
      for _, opset in ipairs {17, 23} do
         torch.onnx.export(fn, {torch.randn(3, 4)}, folder .. "/m.onnx", {input_names = {"x"}, opset_version = opset,
            dynamic_axes = {x = {[1] = {name = "n", max = 9}}}})
         local loaded = torch.onnx.load(folder .. "/m.onnx")
         for i = 1, 20 do
            local x = torch.randn(2 + i % 5, 4)
            local got, expected = {loaded(x)}, {fn(x)}
            for k = 1, 4 do assert.is_true(torch.allclose(got[k], expected[k], {atol = 1e-6})) end
         end
      end
      refused("add_ in a branch or a loop changes a value outside of it", function(x)
         local y = x * 2
         return torch.cond(x:sum():gt(0), function() return y:add_(1) end, function() return y - 1 end)
      end, {torch.ones(2)}, folder .. "/m.onnx")
   end))

   it("writes torch.while_loop as Loop, nested and with branches, for two versions", shell.in_folder(function(folder)
      local function inner(i, y, x)
         local _, s = torch.while_loop(function(j) return j:lt(i + 2) end, function(j, s) return j + 1, s * 2 + x end,
            {torch.tensor(0), y})
         return s
      end
      local function fn(x)
         local two, v = x * 0 + 2, x[{{1, 2}}]
         local a, n = torch.while_loop(function(y, n) return y:sum():lt(100) & n:lt(20) end, function(y, n)
            local z = torch.cond(n:remainder(2):eq(0), function() return y * 1.5 + v:sum() end,
               function() return y + two * 3 end)
            return z:add_(1) + y:size(1), n + 1
         end, {x, torch.tensor(0)})
         local _, y, u = torch.while_loop(function(i) return i:lt(3) end,
            function(i, y, u) return i + 1, inner(i, y, x), u end, {torch.tensor(0), x, x + 1})
         return a + v:sum(), n, two, a:var({1}), y, u
      end
      for _, opset in ipairs {17, 23} do
         torch.onnx.export(fn, {torch.randn(3, 4)}, folder .. "/m.onnx", {input_names = {"x"}, opset_version = opset,
            dynamic_axes = {x = {[1] = {name = "n", max = 9}}}})
         local loaded = torch.onnx.load(folder .. "/m.onnx")
         for i = 1, 20 do
            local x = torch.randn(2 + i % 5, 4)
            local got, expected = {loaded(x)}, {fn(x)}
            for k = 1, 6 do assert.is_true(torch.allclose(got[k], expected[k], {atol = 1e-5, rtol = 1e-5})) end
         end
      end
      refused("add_ in a branch or a loop changes a value outside of it", function(x)
         local y = x * 2
         return torch.while_loop(function(z) return z:sum():lt(9) end, function(z) return z + y:add_(1) end, {x})
      end, {torch.ones(2)}, folder .. "/m.onnx")
   end))

   it("leaves the model's mode and its file alone when it fails", shell.in_folder(function(folder)
      local path = folder .. "/m.onnx"
      local model = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5))
      torch.onnx.export(model, {torch.ones(1, 3)}, path)
      assert.is_true(model.training)
      local before = shell.read(path)
      refused("onnx.export: call 1, digamma: there is no translation of this operator", torch.digamma,
         {torch.ones(2)}, path)
      assert.equal(before, shell.read(path))
   end))

   it("refuses wrong arguments", function()
      local model, x = nn.ReLU(), {torch.ones(2)}
      refused("onnx.export: path: expected a path, got 3", model, x, 3)
      refused("onnx.export: model: expected a module or a function, got 3", 3, x, "m.onnx")
      refused("onnx.export: opset_version: expected 17 to 23, got 9", model, x, "m.onnx", {opset_version = 9})
      refused("onnx.export: unknown option opset; did you mean", model, x, "m.onnx", {opset = 18})
      refused("onnx.export: input_names: expected a list of 1 names, got 2", model, x, "m.onnx",
         {input_names = {"a", "b"}})
      refused("onnx.export: dynamic_axes: unknown option y", model, x, "m.onnx", {input_names = {"x"},
         dynamic_axes = {y = {[1] = "n"}}})
      refused("onnx.export: output_names: expected names that no input has", model, x, "m.onnx",
         {input_names = {"x"}, output_names = {"x"}})
      refused("add_ changes an input, a constant or a view in place", function(y)
         local z = y * 2
         z:narrow(1, 1, 1):add_(1)
         return z
      end, x, "m.onnx")
      refused("onnx.export: /none/m.onnx: No such file or directory", model, x, "/none/m.onnx")
      refused("onnx.export: /tmp: Is a directory", model, x, "/tmp")
      refused("onnx.export: path: expected a path, got", model, x, "a\0b")
   end)
end)
