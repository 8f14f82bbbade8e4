-- Tests torch.onnx.load with models exported from PyTorch, whose outputs and gradients are compared, with the
-- standard's node tests, and with damaged files. nodes.py and fixtures/models.py write the fixtures.

local shell = require "spec.support.shell"
local torch = require "tlua"
local nodes = dofile "rocks/onnx/spec/nodes.lua"
local wire = require "tlua.onnx.wire"

local fixtures <const> = "rocks/onnx/spec/fixtures/"

local function write(path, text)
   local file = assert(io.open(path, "wb"))
   file:write(text)
   file:close()
end

-- Writes a message as a file.
local function save(path, message, kind)
   local file <close> = assert(io.open(path, "wb"))
   assert(not wire.write(file, wire.encode(message, kind or "ModelProto")))
end

local function tensor_type(dtype, ...)
   local dims = {}
   for i, size in ipairs {...} do dims[i] = type(size) == "string" and {dim_param = size} or {dim_value = size} end
   return {tensor_type = {elem_type = dtype, shape = {dim = dims}}}
end

-- Returns a model with one node. The model's input x is float32 of shape {n, 2}.
local function model(node, more)
   local graph = {
      node = {node}, input = {{name = "x", type = tensor_type(1, "n", 2)}}, output = {{name = "y"}},
   }
   for key, value in pairs(more or {}) do graph[key] = value end
   return {ir_version = 8, opset_import = {{version = 17}}, graph = graph}
end

local function load(message)
   local result
   shell.with_folder(function(folder)
      save(folder .. "/m.onnx", message)
      result = torch.onnx.load(folder .. "/m.onnx")
   end)
   return result
end

-- Checks that loading a model raises an error whose message contains `text`.
local function refused(text, message)
   local fine, why = pcall(load, message)
   assert.is_false(fine)
   assert.matches(text, why, 1, true)
end

local function refused_call(text, module, ...)
   local fine, why = pcall(module, ...)
   assert.is_false(fine)
   assert.matches(text, why, 1, true)
end

local relu <const> = {op_type = "Relu", input = {"x"}, output = {"y"}}

describe("onnx.load", function()
   for _, name in ipairs {"small", "encoder", "lstm"} do
      it("gives PyTorch's outputs and gradients for the model " .. name, function()
         local expected = torch.load(("%s%s.pt"):format(fixtures, name))
         local module = torch.onnx.load(("%s%s.onnx"):format(fixtures, name))
         local y = module(expected.x1)
         assert.is_true(torch.allclose(y, expected.y, {rtol = 1e-4, atol = 1e-5}))
         y:mul(y):mean():backward()
         local n = 0
         for key, parameter in module:named_parameters() do
            local grad = expected["grad." .. key]
            assert.is_true(torch.allclose(parameter.grad:reshape(grad.shape), grad, {rtol = 1e-4, atol = 1e-6}), key)
            n = n + 1
         end
         assert.is_true(n >= 6)
      end)
   end

   it("reads the files of PyTorch's older exporter", function()
      local expected = torch.load(fixtures .. "small.pt")
      local y = torch.onnx.load(fixtures .. "small_old.onnx")(expected.x1)
      assert.is_true(torch.allclose(y, expected.y, {rtol = 1e-4, atol = 1e-5}))
   end)

   it("makes a model that an optimizer trains", function()
      local data = torch.load(fixtures .. "small.pt")
      local module = torch.onnx.load(fixtures .. "small.onnx")
      local optimizer = torch.optim.SGD(module:parameters(), {lr = 0.1})
      local first, last
      for _ = 1, 5 do
         optimizer:zero_grad()
         local loss = module(data.x1):pow(2):mean()
         loss:backward()
         optimizer:step()
         last = loss:item()
         first = first or last
      end
      assert.is_true(last < 0.9 * first)
   end)

   it("names parameters as the file does, and running statistics are buffers", function()
      local module = torch.onnx.load(fixtures .. "small.onnx")
      local names, buffers = {}, {}
      for name in module:named_parameters() do names[name] = true end
      for name in module:named_buffers() do buffers[name] = true end
      assert.is_true(names["conv.weight"] and names["norm.weight"] and names["fc.bias"])
      assert.is_true(buffers["norm.running_mean"])
      assert.is_nil(names["norm.running_mean"])
   end)

   local cases = torch.io.folder(fixtures .. "nodes")
   for name in torch.io.text(cases, 1, cases:numel()):gmatch "d([^%z]+)" do
      it("passes the standard's " .. name, function()
         local _, failure = nodes.run(fixtures .. "nodes/" .. name)
         assert.is_nil(failure)
      end)
   end

   it("takes inputs by name, and refuses missing, unknown and wrong ones", function()
      local module = load(model(relu))
      assert.same({"x"}, module:input_names())
      assert.same({"y"}, module:output_names())
      assert.equal("onnx.Module(x: float32 {n, 2} -> y; 1 nodes)", tostring(module))
      assert.equal(1, module({x = torch.ones(1, 2)})[{1, 1}]:item())
      refused_call("onnx.Module: input x is missing; the inputs are x", module)
      refused_call("onnx.Module: inputs: unknown option z", module, {z = torch.ones(1, 2)})
      refused_call("onnx.Module: input x: expected float32 {n, 2}, got", module, torch.ones(1, 3))
      refused_call("onnx.Module: input x: expected float32 {n, 2}, got", module, torch.ones({1, 2}, {dtype = "int64"}))
      refused_call("onnx.Module: expected at most 1 input (x), got 2", module, torch.ones(1, 2), torch.ones(1, 2))
   end)

   it("refuses sizes of one name that differ", function()
      local module = load(model({op_type = "Add", input = {"x", "z"}, output = {"y"}},
         {input = {{name = "x", type = tensor_type(1, "n", 2)}, {name = "z", type = tensor_type(1, "n", 2)}}}))
      refused_call("but n is 3 in another place", module, torch.ones(3, 2), torch.ones(1, 2))
   end)

   it("names an unknown operator with its domain, version and node", function()
      refused('node 0 (Foo "f"): there is no operator Foo in the domain ai.onnx, version 17',
         model {op_type = "Foo", name = "f", input = {"x"}, output = {"y"}})
      local other = model {op_type = "Foo", domain = "my", input = {"x"}, output = {"y"}}
      other.opset_import = {{version = 17}, {domain = "my", version = 2}}
      refused("node 0 (Foo): there is no operator Foo in the domain my, version 2", other)
   end)

   it("refuses an opset that is too new", function()
      local message = model(relu)
      message.opset_import = {{version = 99}}
      refused("opset_import: version 99 of the domain ai.onnx is too new; the newest known is 28", message)
   end)

   it("names the node and the attribute of a wrong kind, and of a missing value", function()
      refused_call("node 0 (Softmax): attribute axis: expected an int, got a string",
         load(model {op_type = "Softmax", input = {"x"}, output = {"y"},
            attribute = {{name = "axis", type = 3, s = "1"}}}), torch.ones(1, 2))
      refused_call("node 0 (Concat): attribute axis is missing",
         load(model {op_type = "Concat", input = {"x"}, output = {"y"}}), torch.ones(1, 2))
      refused('node 0 (Relu): input "q": no input, initializer or earlier node makes it',
         model {op_type = "Relu", input = {"q"}, output = {"y"}})
   end)

   it("calls functions of the model, and refuses those that call themselves", function()
      local message = model {op_type = "Twice", domain = "f", input = {"x"}, output = {"y"},
         attribute = {{name = "k", type = 1, f = 3}}}
      message.opset_import[2] = {domain = "f", version = 1}
      message.functions = {{
         name = "Twice", domain = "f", input = {"a"}, output = {"b"}, attribute = {"k"},
         opset_import = {{version = 17}},
         node = {{op_type = "Elu", input = {"a"}, output = {"b"},
            attribute = {{name = "alpha", ref_attr_name = "k", type = 1}}}},
      }}
      local y = load(message)(torch.full({1, 2}, -1.0))
      assert.near(3 * (math.exp(-1) - 1), y[{1, 1}]:item(), 1e-5)
      message.functions[1].node[1] = {op_type = "Twice", domain = "f", input = {"a"}, output = {"b"}}
      message.functions[1].opset_import[2] = {domain = "f", version = 1}
      refused("functions call one another more than 64 deep", message)
   end)

   it("reads external data, and refuses paths outside of the folder and lengths beyond the file", function()
      shell.with_folder(function(folder)
         write(folder .. "/w.bin", string.pack("<ffff", 1, 2, 3, 4))
         local weight = {name = "w", dims = {2}, data_type = 1, data_location = 1,
            external_data = {{key = "location", value = "w.bin"}, {key = "offset", value = "8"}}}
         local mul = {op_type = "Mul", input = {"x", "w"}, output = {"y"}}
         local message = model(mul, {initializer = {weight}})
         save(folder .. "/m.onnx", message)
         local y = torch.onnx.load(folder .. "/m.onnx")(torch.ones(1, 2))
         assert.same({{3, 4}}, y:tolist())
         for _, case in ipairs {
            {"../w.bin", "0",
               'initializer 0 "w": external_data: expected a file in the model\'s folder, got "../w.bin"'},
            {"/etc/passwd", "0", "external_data: expected a file in the model's folder"},
            {"a/../../w.bin", "0", "external_data: expected a file in the model's folder"},
            {"w.bin", "12", "has 16 bytes; offset 12 and length 8 lie outside"},
            {"w.bin", "-1", "external_data: expected numbers of bytes"},
            {"none.bin", "0", "none.bin: No such file or directory"},
         } do
            weight.external_data = {{key = "location", value = case[1]}, {key = "offset", value = case[2]}}
            save(folder .. "/m.onnx", message)
            assert.raises(case[3], function() torch.onnx.load(folder .. "/m.onnx") end)
         end
      end)
   end)

   it("refuses raw data and shapes that do not fit", function()
      local weight = {name = "w", dims = {3}, data_type = 1, raw_data = torch.ones(2)}
      local message = model({op_type = "Mul", input = {"x", "w"}, output = {"y"}}, {initializer = {weight}})
      refused('initializer 0 "w": raw_data: expected 12 bytes for float32 {3}, got 8', message)
      weight.dims = {1 << 40, 1 << 40}
      refused('initializer 0 "w": dims: {1099511627776, 1099511627776} has too many elements', message)
      weight.dims = {-1}
      refused('initializer 0 "w": dims: a size of -1', message)
      weight.dims, weight.data_type = {2}, 77
      refused('initializer 0 "w": data_type: the unknown number 77', message)
      weight.data_type, weight.raw_data, weight.float_data = 1, nil, {1}
      refused('initializer 0 "w": float_data: expected 8 bytes for float32 {2}, got 4', message)
   end)

   it("refuses graphs that are nested too deeply", function()
      local inner = {node = {relu}, output = {{name = "y"}}}
      for _ = 1, 60 do
         inner = {output = {{name = "y"}}, node = {{op_type = "If", input = {"c"}, output = {"y"},
            attribute = {{name = "then_branch", type = 5, g = inner}}}}}
      end
      local message = model(relu)
      message.graph = inner
      refused("messages are nested more than 100 deep", message)
   end)

   it("names the file and the byte of damage, for every cut of a file", function()
      local text = shell.read(fixtures .. "small_old.onnx")
      shell.with_folder(function(folder)
         local path = folder .. "/m.onnx"
         for n = 0, #text - 1, 61 do
            write(path, text:sub(1, n))
            local fine, why = pcall(torch.onnx.load, path)
            assert.is_false(fine)
            assert.matches("onnx.load: " .. path .. ": ", why, 1, true)
         end
      end)
   end)

   it("raises only errors of its own for damaged bytes", function()
      local text = shell.read(fixtures .. "small_old.onnx")
      local random = torch.Generator():manual_seed(1)
      shell.with_folder(function(folder)
         local path = folder .. "/m.onnx"
         for _ = 1, 300 do
            local at = torch.randint(1, #text, {1}, {generator = random}):item()
            local byte = torch.randint(0, 256, {1}, {generator = random}):item()
            write(path, text:sub(1, at - 1) .. string.char(byte) .. text:sub(at + 1))
            local fine, why = pcall(function()
               local module = torch.onnx.load(path)
               return module(torch.ones(1, 1, 6, 6))
            end)
            assert.is_true(fine or why:find "onnx%.load: " ~= nil or why:find "onnx%.Module: " ~= nil, tostring(why))
            assert.is_nil(not fine and why:find "tlua:" or nil, tostring(why))
         end
      end)
   end)

   it("ends loops without an end, windows in the padding, and trees of too many targets", function()
      local body = {name = "b", node = {{op_type = "Identity", input = {"c"}, output = {"d"}}},
         input = {{name = "i"}, {name = "c"}}, output = {{name = "d"}}}
      local loop = {op_type = "Loop", input = {"", "go"}, output = {},
         attribute = {{name = "body", type = 5, g = body}}}
      local go = {name = "go", dims = {}, data_type = 9, raw_data = torch.tensor(true)}
      local message = model(loop, {initializer = {go}})
      message.graph.node[2] = relu
      shell.with_folder(function(folder)
         local path = folder .. "/m.onnx"
         save(path, message)
         refused_call("node 0 (Loop): more than 5000 loop steps in one call; see max_loop_steps of onnx.load",
            torch.onnx.load(path, {max_loop_steps = 5000}), torch.ones(1, 2))
         assert.raises("onnx.load: max_loop_steps: expected an integer of at least 1, got 0",
            function() torch.onnx.load(path, {max_loop_steps = 0}) end)
      end)
      local pool = model {op_type = "MaxPool", input = {"x"}, output = {"y"}, attribute = {
         {name = "kernel_shape", type = 7, ints = {3}}, {name = "pads", type = 7, ints = {1 << 40, 0}}}}
      pool.graph.input[1].type = tensor_type(1, "n", 2, 4)
      refused_call("attribute pads: expected less than the window's 3, got 1099511627776", load(pool),
         torch.ones(1, 2, 4))
   end)

   it("gives loops without steps the dtype and the sizes that their bodies declare", function()
      local ten = {name = "ten", dims = {}, data_type = 7, raw_data = torch.tensor(0)}
      local body = {name = "b", node = {{op_type = "Identity", input = {"c"}, output = {"d"}},
         {op_type = "Identity", input = {"v"}, output = {"s"}}},
         input = {{name = "i"}, {name = "c"}}, output = {{name = "d"}, {name = "s", type = tensor_type(7, 3, "k")}},
         initializer = {{name = "v", dims = {3, 1}, data_type = 7, raw_data = torch.zeros({3}, {dtype = "int64"})}}}
      local loop = load(model({op_type = "Loop", input = {"ten", ""}, output = {"y"},
         attribute = {{name = "body", type = 5, g = body}}}, {initializer = {ten}}))
      local y = loop(torch.ones(1, 2))
      assert.equal("int64", y.dtype)
      assert.same({0, 3, 0}, y.shape)
      local step = {name = "b", node = {{op_type = "Shape", input = {"row"}, output = {"s"}}},
         input = {{name = "row"}}, output = {{name = "s", type = tensor_type(7, 1)}}}
      local scan = load(model {op_type = "Scan", input = {"x"}, output = {"y"}, attribute = {
         {name = "body", type = 5, g = step}, {name = "num_scan_inputs", type = 2, i = 1},
         {name = "scan_output_axes", type = 7, ints = {1}}}})
      assert.same({{2, 2}}, scan(torch.ones(2, 2)):tolist())
      y = scan(torch.ones(0, 2))
      assert.equal("int64", y.dtype)
      assert.same({1, 0}, y.shape)
   end)

   it("encodes strings that look like numbers, and adds uint64 numbers", function()
      local encoder = model {op_type = "OneHotEncoder", domain = "ai.onnx.ml", input = {"x"}, output = {"y"},
         attribute = {{name = "cats_strings", type = 8, strings = {"3", "b"}}}}
      encoder.opset_import[2] = {domain = "ai.onnx.ml", version = 3}
      encoder.graph.input[1].type = tensor_type(8, "n")
      assert.same({{1, 0}, {0, 1}, {0, 0}}, load(encoder) {"3", "b", "4"}:tolist())
      local sum = model {op_type = "Sum", input = {"x", "x"}, output = {"y"}}
      sum.graph.input[1].type = tensor_type(13, "n")
      assert.same({2, 4}, load(sum)(torch.tensor({1, 2}, {dtype = "uint64"})):tolist())
   end)

   it("matches texts with regular expressions", function()
      local function matches(pattern, ...)
         local message = model {op_type = "RegexFullMatch", input = {"x"}, output = {"y"},
            attribute = {{name = "pattern", type = 3, s = pattern}}}
         message.opset_import[1].version = 20
         message.graph.input[1].type = tensor_type(8, "n")
         return load(message) {...}:tolist()
      end
      assert.same({true, false, false}, matches([[[\w.-]+@[\w.]+?]], "a_b.c-d@x.org", "a@", "a b@c"))
      assert.same({true, true, false}, matches([[a\*?b]], "ab", "a*b", "a**b"))
      assert.same({true, false}, matches("a.c", "abc", "a\nc"))
      assert.same({true, true, false}, matches([=[[\]x]+]=], "]", "x]", "y"))
      assert.same({true, false}, matches("50%-?", "50%", "50-"))
      local fine, why = pcall(matches, [=[[\D]]=], "a")
      assert.is_false(fine)
      assert.matches("attribute pattern: not supported: groups, alternatives, counts, in", why, 1, true)
   end)

   it("gives the standard's NaN", function()
      local nan = 0 / 0
      local x = torch.tensor {{nan, -3}, {2, nan}, {-0.0, 1}}
      local function same(expected, y)
         assert.is_true(torch.equal(torch.tensor(expected):nan_to_num(7), y:nan_to_num(7)))
      end
      same({{nan, -1}, {1, nan}, {0, 1}}, load(model {op_type = "Sign", input = {"x"}, output = {"y"}})(x))
      same({{nan}, {nan}, {1}}, load(model {op_type = "ReduceMax", input = {"x"}, output = {"y"},
         attribute = {{name = "axes", type = 7, ints = {1}}}})(x))
      same({{nan, nan}}, load(model {op_type = "ReduceMin", input = {"x"}, output = {"y"},
         attribute = {{name = "axes", type = 7, ints = {0}}}})(x))
      shell.with_folder(function(folder)
         local path = folder .. "/m.onnx"
         torch.onnx.export(function(v) return v:sign() end, {x}, path)
         same(x:sign():tolist(), torch.onnx.load(path)(x))
      end)
   end)

   it("refuses sizes, scales and regions of Resize that are no sizes", function()
      local function resize(position, list, dtype, region)
         local inputs = {"x", "", "", ""}
         inputs[position] = "list"
         local numbers = torch.tensor(list, {dtype = dtype, device = "cpu"})
         local number = dtype == "int64" and 7 or 1
         local initializers = {{name = "list", dims = {2}, data_type = number, raw_data = numbers}}
         local attributes = {{name = "mode", type = 3, s = "linear"}}
         if region then
            inputs[2] = "roi"
            local area = torch.tensor(region, {device = "cpu"})
            initializers[2] = {name = "roi", dims = {4}, data_type = 1, raw_data = area}
            attributes[2] = {name = "coordinate_transformation_mode", type = 3, s = "tf_crop_and_resize"}
         end
         if position == 3 then inputs[4] = nil end
         return load(model({op_type = "Resize", input = inputs, output = {"y"}, attribute = attributes},
            {initializer = initializers})), torch.ones(3, 2)
      end
      assert.same({3, 5}, table.move((resize(4, {3, 5}, "int64"))(torch.ones(3, 2)).shape, 1, 2, 1, {}))
      refused_call("node 0 (Resize): sizes: expected new sizes of 0 to 16777216, got 4.61",
         resize(4, {3, 1 << 62}, "int64"))
      refused_call("node 0 (Resize): sizes: expected new sizes of 0 to 16777216, got -5", resize(4, {3, -5}, "int64"))
      refused_call("node 0 (Resize): scales: expected new sizes of 0 to 16777216, got inf",
         resize(3, {1, math.huge}, "float32"))
      refused_call("node 0 (Resize): scales: expected more than 0, got", resize(3, {1, 0 / 0}, "float32"))
      refused_call("node 0 (Resize): roi: dimension 2: the place 5e+29 of an element lies too far outside",
         resize(4, {3, 3}, "int64", {0, 0, 1, 1e30}))
      refused_call("node 0 (Resize): roi: dimension 2: the place", resize(4, {3, 3}, "int64", {0, 0, 1, math.huge}))
   end)

   it("refuses wrong arguments", function()
      assert.raises("onnx.load: path: expected a path, got 3", function() torch.onnx.load(3) end)
      assert.raises("onnx.load: path: expected a path, got", function() torch.onnx.load "a\0b" end)
      assert.raises("onnx.load: /none.onnx: No such file or directory", function()
         torch.onnx.load "/none.onnx"
      end)
   end)
end)
