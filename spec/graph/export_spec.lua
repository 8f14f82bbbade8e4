-- Tests torch.export. A program must compute the same results as the model, bit for bit. Code that cannot be recorded
-- must raise an error at the model's line.

local torch = require "tlua"
local device <const> = require("spec.support.device").name or "cpu"
local saved = require("spec.support.programs").saved
local nn, F = torch.nn, torch.nn.functional

local function plain(program) return (tostring(program):gsub("; [^\n]*$", "")) end

local function same(expected, given, path)
   if torch.is_tensor(expected) then
      assert.equal(expected.dtype, given.dtype, path)
      assert.same(expected.shape, given.shape, path)
      assert(expected:equal(given), path .. ": other values")
      return
   end
   for key, value in pairs(expected) do same(value, given[key], path .. "." .. tostring(key)) end
end

-- Exports a model with the first set of inputs. For all sets, compares the results of the model, the program and the
-- saved program.
local function check(model, sets, options)
   if type(model) == "table" then model:eval() end
   local program = torch.export(model, sets[1], options)
   local loaded = saved(program)
   assert.equal(plain(program), plain(loaded))
   local _ <close> = torch.no_grad()
   for round = 1, 3 do
      for i, set in ipairs(sets) do
         local expected = table.pack(model(table.unpack(set)))
         for _, p in ipairs {program, loaded} do
            local given = table.pack(p(table.unpack(set)))
            assert.equal(expected.n, given.n)
            same({table.unpack(expected, 1, expected.n)}, given, ("round %d, inputs %d"):format(round, i))
         end
      end
   end
   return program
end

local function convnet()
   return nn.Sequential(nn.Conv2d(1, 8, 3, {padding = 1}), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
                        nn.Conv2d(8, 16, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                        nn.Dropout(0.5), nn.Linear(16, 10))
end

describe("torch.export with the option optimize", function()
   local x
   before_each(function()
      torch.manual_seed(3)
      x = torch.randn(2, 1, 8, 8)
   end)

   it("merges layers, and keeps results and files", function()
      local _ <close> = torch.no_grad()
      local model = convnet():eval()
      model[2].running_mean:normal_()
      local program = torch.export(model, {x}, {optimize = true})
      local text, expected = tostring(program), model(x)
      for _, name in ipairs {"batch_norm", "= relu", "dropout", "[^_]conv2d"} do
         if device == "cpu" or name ~= "[^_]conv2d" then assert.is_nil(text:find(name), text) end
      end
      assert.close(expected, program(x), 1e-5)
      assert.is_true(program(x):equal(saved(program)(x)))
      -- the program has copies of the parameters, so this change of the model does not affect it
      model[1].weight:zero_()
      assert.close(expected, program(x), 1e-5)
   end)

   it("shows long names of inputs as a whole", function()
      local name = ("n"):rep(3000)
      local text = tostring(torch.export(function(t) return t + 1 end, {torch.ones(2)}, {names = {name}}))
      assert.matches(name .. ": float32 {2}", text, 1, true)
   end)

   it("serves dynamic sizes", function()
      local _ <close> = torch.no_grad()
      local model = convnet():eval()
      local program = torch.export(model, {x}, {optimize = true, names = {"x"}, dynamic = {x = {1}}})
      assert.is_nil(tostring(program):find("batch_norm", 1, true))
      local loaded = saved(program)
      for n = 1, 7, 3 do
         local images = torch.randn(n, 1, 8, 8)
         assert.close(model(images), program(images), 1e-5)
         assert.close(model(images), loaded(images), 1e-5)
      end
   end)

   it("says why an optimization was left out", function()
      local _ <close> = torch.no_grad()
      local model = convnet():eval()
      assert.is_nil(torch.export(model, {x}, {optimize = true}).unoptimized)
      local compare = require "tlua.compile.compare"
      local difference = compare.difference
      compare.difference = function() return "a result of the program has other values" end
      local program = torch.export(model, {x}, {optimize = true})
      compare.difference = difference
      assert.equal("a result of the program has other values", program.unoptimized)
      assert.is_true(model(x):equal(program(x)))
   end)

   it("computes constants only if they do not depend on sizes", function()
      local function fn(a) return a + torch.zeros(a:size(1), 2):add(1):mul(torch.ones(2) * 3) end
      local given = torch.randn(3, 2)
      local program = torch.export(fn, {given}, {optimize = true, names = {"a"}, dynamic = {a = {1}}})
      for n = 2, 5 do
         local other = torch.randn(n, 2)
         assert.is_true(fn(other):equal(program(other)))
      end
   end)

   it("leaves buffers of models in training mode as they are", function()
      local model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4))
      local program = torch.export(model, {x}, {optimize = true})
      assert.equal(0.0, model[2].running_mean:abs():sum():item())
      local other = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4))
      other:load_state_dict(model:state_dict())
      local _ <close> = torch.no_grad()
      assert.close(other(x), program(x), 1e-5)
   end)

   it("refuses values that are not boolean", function()
      assert.raises("export: optimize: expected a boolean, got 1", function()
         torch.export(nn.ReLU(), {x}, {optimize = 1})
      end)
   end)
end)

describe("calls of programs", function()
   local x
   before_each(function() x = torch.ones(2) end)

   it("take any number of tensors and return any number", function()
      for _, n in ipairs {1, 2, 16, 17, 40} do
         local function fn(...)
            local list = {...}
            for i = 1, n do list[i] = list[i] * i end
            return table.unpack(list)
         end
         local given, names = {}, {}
         for i = 1, n do given[i], names[i] = x + i, "x" .. i end
         local results = {torch.export(fn, given, {names = names})(table.unpack(given))}
         assert.equal(n, #results)
         for i = 1, n do assert.same({(1 + i) * i, (1 + i) * i}, results[i]:tolist()) end
      end
   end)

   it("name arguments that are no tensors", function()
      local program = torch.export(function(a, b) return a + b end, {x, x})
      assert.raises("program: inputs: expected 2 tensors, as in the exported call, got 1", function() program(x) end)
      assert.raises("program: inputs.2: expected a tensor, or a table of tensors, got a userdata", function()
         program(x, io.stdout)
      end)
      assert.raises("expected size 2 in dimension 1", function() program(x, torch.ones(3)) end)
   end)
end)

describe("torch.export", function()
   before_each(function() torch.manual_seed(3) end)

   it("computes layers and networks to the bit", function()
      check(convnet(), {{torch.randn(2, 1, 8, 8)}})
      check(nn.LSTM(4, 6, {num_layers = 2, batch_first = true, bidirectional = true}), {{torch.randn(2, 5, 4)}})
      check(nn.GRU(4, 6), {{torch.randn(5, 2, 4), torch.randn(1, 2, 6)}})
      check(nn.TransformerEncoderLayer(16, 4, {dim_feedforward = 32, batch_first = true}), {{torch.randn(2, 5, 16)}})
      check(nn.MultiheadAttention(16, 4), {{torch.randn(5, 2, 16), torch.randn(5, 2, 16), torch.randn(5, 2, 16)}})
      check(nn.Sequential(nn.Embedding(10, 4), nn.LayerNorm(4), nn.GELU()), {{torch.tensor {1, 5, 10, 3}}})
      check(nn.Sequential(nn.Linear(4, 4), nn.ReLU {inplace = true}), {{torch.randn(2, 4)}})
   end)

   it("keeps the memory format of weights", function()
      check(nn.Conv2d(3, 4, 3):to {memory_format = torch.channels_last}, {{torch.randn(1, 3, 6, 6)}})
   end)

   it("takes and returns nested tables and several results", function()
      local program = check(function(t, z) return {sum = t.x + t.y, list = {t.x, z}}, t.y * z end,
                            {{{x = torch.randn(2), y = torch.randn(2)}, torch.randn(2)}})
      assert.equal("t.x", program:inputs()[1].name)
      assert.error_matches(function() program({x = torch.ones(2)}, torch.ones(2)) end,
         "program: inputs.1: expected 2 tensors, as in the exported call, got 1")
   end)

   it("records views, writes to them, and positions", function()
      check(function(x)
         local y = x:clone()
         y[1] = 0
         y[{{1, 2}, 2}] = 5
         y:t():mul_(2)
         return y[{{}, 1}], y, x[torch.tensor {-1, 1}], x.data + x:detach()
      end, {{torch.randn(3, 4)}})
      check(function(x)
         local y = x:clone()
         y:unsqueeze_(1):transpose_(1, 2)
         return y
      end, {{torch.randn(4)}})
   end)

   it("records arithmetic with numbers, constants, and several results", function()
      check(function(x) return x ^ 2, 2 ^ x, -x, x // 1, x % 2, 1 / x, x:gt(0) & x:lt(1) end, {{torch.randn(4)}})
      check(function(x) return x + torch.tensor {1, 2, 3, 4} end, {{torch.randn(4)}})
      check(function(x) return x:topk(2) end, {{torch.randn(5)}})
      check(function(x) local a, b = table.unpack(x:chunk(2)) return a * b end, {{torch.randn(4)}})
      check(function(x) return torch.einsum("ij,jk->ik", x, x:t()), torch.linalg.inv(x) end, {{torch.randn(4, 4)}})
      check(function(x) return F.interpolate(x, {scale_factor = 2, mode = "bilinear"}) end, {{torch.randn(1, 2, 4, 4)}})
      check(function(x) return x end, {{torch.randn(4)}})
   end)

   it("records the casts of autocast", function()
      check(function(x)
         local _ <close> = torch.autocast(device)
         return x:matmul(x)
      end, {{torch.randn(4, 4)}})
   end)

   it("records one cast of a parameter that autocast casts for two uses", function()
      local layer = nn.Linear(3, 3)
      local function model(x)
         local _ <close> = torch.autocast(device)
         return layer(layer(x))
      end
      local program = check(model, {{torch.randn(2, 3)}})
      assert.equal(3, select(2, tostring(program):gsub("to_dtype", "")))
   end)

   it("records casts of parameters that an outer autocast keeps", function()
      local _ <close> = torch.autocast(device, {dtype = "bfloat16"})
      local model, x = nn.Linear(3, 2):eval(), torch.randn(4, 3)
      for _, state in ipairs {"before", "after"} do
         local program = torch.export(model, {x})
         assert.is_truthy(program:state_dict().weight, state .. " a call that keeps the cast")
         assert.equal("bfloat16", program(x).dtype)
         assert.is_true(program(x):equal(model(x)))
      end
   end)

   it("follows negative positions, which the traced call did not have", function()
      local program = torch.export(function(x, at) return x[at] end, {torch.arange(5), torch.tensor {1, 2}})
      assert.same({4, 0}, program(torch.arange(5), torch.tensor {-1, 1}):tolist())
      assert.error_matches(function() program(torch.arange(5), torch.tensor {6, 1}):tolist() end, "out of range")
   end)

   it("has the default dtype of the exported call", function()
      torch.set_default_dtype "float64"
      local fine, program = pcall(torch.export, function(x) return x / 3 + torch.ones(2) end, {torch.tensor {1, 2}})
      torch.set_default_dtype "float32"
      assert(fine, program)
      assert.same({1 / 3 + 1, 2 / 3 + 1}, program(torch.tensor {1, 2}):tolist())
      assert.equal("float32", torch.ones(1).dtype)
   end)

   it("changes buffers as the model does", function()
      local model = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 2))
      local twin = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 2))
      twin:load_state_dict(model:state_dict())
      local program = torch.export(model, {torch.randn(3, 4)})
      assert.equal(0, model[1].num_batches_tracked:item())
      assert.same({0, 0, 0, 0}, model[1].running_mean:tolist())
      local loaded = saved(program)
      for _ = 1, 3 do
         local t = torch.randn(5 - 2, 4)
         local expected = torch.no_grad(function() return twin(t) end)
         assert(expected:equal(program(t)))
         assert(expected:equal(loaded(t)))
      end
      for name, value in pairs(twin:state_dict()) do
         assert(value:equal(program:state_dict()[name]), name)
         assert(value:equal(loaded:state_dict()[name]), name)
         assert(value:equal(model:state_dict()[name]), name)
      end
      assert.equal(3, loaded:state_dict()["1.num_batches_tracked"]:item())
   end)

   it("draws the model's random numbers", function()
      local model = nn.Dropout(0.5):train()
      local x = torch.ones(100)
      local program = torch.export(model, {x})
      torch.manual_seed(1)
      local expected, after = model(x), torch.rand(1)
      torch.manual_seed(1)
      assert(expected:equal(program(x)))
      assert(after:equal(torch.rand(1)))
   end)

   it("gives results that belong to the caller", function()
      local program = torch.export(function(x) return x, x[1] end, {torch.ones(2)})
      local x = torch.ones(2)
      local a = program(x)
      a:zero_()
      local b = program(x)
      assert.same({1, 1}, x:tolist())
      assert.same({1, 1}, b:tolist())
      assert.same({0, 0}, a:tolist())
      assert.False(program(x:clone():requires_grad_()).requires_grad)
   end)
end)

describe("a program's dynamic sizes", function()
   it("may be added and multiplied", function()
      local dynamic = {dynamic = {x = {{name = "a", max = 9}, {name = "b", max = 9}}}}
      check(function(x) return x * (x:size(1) + 2 * x:size(2)) end,
            {{torch.randn(4, 5)}, {torch.randn(7, 3)}, {torch.randn(2, 8)}}, dynamic)
      local sets = {{torch.randn(4, 5)}, {torch.randn(7, 3)}, {torch.randn(2, 8)}, {torch.randn(9, 9)}}
      check(function(x) return x:sum() / x:numel() end, sets, dynamic)
      check(function(x)
         return torch.zeros(x:size(1) * x:size(2)) + (x:size(1) - 1) * (x:size(2) + 3)
      end, sets, dynamic)
      local sizes = {dynamic = {x = {{name = "b", max = 6}, {name = "h", max = 6}, {name = "w", max = 6}}}}
      local program = check(function(x)
         local b, h, w = x:size(1), x:size(2), x:size(3)
         return x:view(b * h * w, 2), x:view(b, h * w * 2), x:view(b * h, -1), torch.ones(h * h)
      end, {{torch.randn(2, 3, 4, 2)}, {torch.randn(1, 6, 5, 2)}, {torch.randn(6, 1, 6, 2)}, {torch.randn(3, 3, 3, 2)}},
      sizes)
      assert.matches("view(x, size = {b * h * w, 2})", tostring(program), 1, true)
      assert.matches("ones(size = {h * h}", tostring(program), 1, true)
      for _, fn in ipairs {
         function(x) return x * (x:size(1) * x:size(2) * x:size(2)) end,
         function(x) return torch.ones(x:size(1) // 2) end,
         function(x) return torch.ones(x:size(1) * x:size(2) // 2) end,
      } do
         assert.error_matches(function() torch.export(fn, {torch.randn(4, 5)}, dynamic) end, "of the inputs")
      end
   end)

   it("fit other batches and lengths", function()
      local batches = {{torch.randn(2, 1, 8, 8)}, {torch.randn(1, 1, 8, 8)}, {torch.randn(9, 1, 8, 8)}}
      -- The export also calls the model with the largest sizes, which takes long on emulated devices.
      local n, t <const> = {name = "n", max = 16}, {name = "t", max = 10}
      check(convnet(), batches, {dynamic = {input = {n}}})
      check(nn.LSTM(4, 6, {batch_first = true}), {{torch.randn(2, 5, 4)}, {torch.randn(3, 1, 4)}},
            {dynamic = {input = {n, t}}})
      check(nn.TransformerEncoderLayer(16, 4, {dim_feedforward = 32, batch_first = true}),
            {{torch.randn(2, 5, 16)}, {torch.randn(3, 9, 16)}}, {dynamic = {src = {n, t}}, names = {"src"}})
   end)

   it("are found in arguments and numbers", function()
      local program = check(function(x)
         return x:sum(1) / x.shape[1], x:view(x:size(1) * 2, -1), x:reshape(-1) * x.shape[1]
      end, {{torch.randn(4, 6)}, {torch.randn(7, 6)}, {torch.randn(1, 6)}}, {dynamic = {x = {1}}})
      assert.matches("view%(x, size = {2 %* x_1, %-1}%)", tostring(program))
      check(function(x)
         local n = x.shape[1]
         return x:masked_fill(torch.ones(n, n):triu(1):bool(), -math.huge):softmax(2)
      end, {{torch.randn(4, 4)}, {torch.randn(9, 9)}}, {dynamic = {x = {[1] = "n", [2] = "n"}}})
   end)

   it("are tried one by one while calls are short", function()
      for _, size in ipairs {9, 37, 64} do
         assert.error_matches(function()
            torch.export(function(x)
               if x:size(1) == size then return x + 1 end
               return x * 2
            end, {torch.randn(4, 6)}, {dynamic = {x = {1}}})
         end, ("x_1 of the inputs.*; the call with x_1 = %d differs"):format(size))
      end
      local layer, calls = nn.Linear(1000, 1000), 0
      torch.export(function(x)
         calls = calls + 1
         return layer(x)
      end, {torch.randn(4, 1000)}, {dynamic = {x = {1}}})
      assert(calls < 20, calls)
   end)

   it("are one size in several inputs by name", function()
      local x, y = torch.randn(4, 2), torch.randn(4, 2)
      local program = check(function(a, b) return a + b end, {{x, y}, {x[{{1, 3}}], y[{{1, 3}}]}},
                            {dynamic = {a = {[1] = "n"}, b = {[1] = "n"}}})
      assert.error_matches(function() program(x, y[{{1, 3}}]) end,
         "program: b: expected size 4 in dimension 1, which is n as in another input, got sizes %[3, 2%]")
   end)

   it("are refused if the model calls other operators for another size", function()
      local function refused(pattern, fn)
         assert.error_matches(function() torch.export(fn, {torch.randn(4, 6)}, {dynamic = {x = {1}}}) end, pattern)
      end
      refused("depends on x_1", function(x) return x / math.sqrt(x.shape[1]) end)
      refused("depends on x_1", function(x) return x:reshape(-1):tile(x.shape[1] ^ 3 // 1 | 0):sum() end)
      refused("other operators for other x_1", function(x)
         local sum = 0
         for i = 1, x.shape[1] do sum = sum + x[i] end
         return sum
      end)
      refused("a tensor that the model makes, depends on x_1", function(x) return x + torch.tensor(x.shape[1]) end)
   end)

   it("end at 16 times the example's size, at least at 64, unless a range is given", function()
      local function double(x) return x * 2 end
      local program = torch.export(double, {torch.ones(5)}, {dynamic = {x = {1}}})
      assert.same({80}, program(torch.ones(80)).shape)
      assert.error_matches(function() program(torch.ones(81)) end, "program: x: expected a size of at most 80 in "
         .. "dimension 1, the largest of x_1 in the export, got sizes %[81%] %(give `max` in `dynamic` for larger")
      program = check(double, {{torch.ones(5)}, {torch.ones(500)}}, {dynamic = {x = {[1] = {min = 4, max = 500}}}})
      assert.error_matches(function() program(torch.ones(3)) end, "x: expected a size of at least 4 in dimension 1")
      assert.error_matches(function() program(torch.ones(501)) end, "x: expected a size of at most 500 in dimension 1")
      local function refused(pattern, range)
         assert.error_matches(function() torch.export(double, {torch.ones(5)}, {dynamic = {x = {[1] = range}}}) end,
                              pattern)
      end
      refused("export: dynamic: x_1: expected an example with a size from 6 to 80, got 5", {min = 6})
      refused("dynamic: x: max: expected a size of at least 1, got 0.5", {max = 0.5})
      refused("export: dynamic: x: name: expected a string, got 1", {name = 1})
      refused("did you mean max", {maxx = 3})
   end)

   it("end where the model does", function()
      local positions = nn.Embedding(40, 2)
      local program = torch.export(function(x)
         return x + positions(torch.arange(1, x.shape[1] + 1))
      end, {torch.ones(8, 2)}, {dynamic = {x = {1}}})
      assert.same({32, 2}, program(torch.ones(32, 2)).shape)
      assert.error_matches(function() program(torch.ones(33, 2)) end, "a size of at most 32 in dimension 1")
   end)

   it("are refused if the model branches within the range", function()
      local function refused(fn, size, range)
         assert.error_matches(function()
            torch.export(fn, {torch.ones(size)}, {dynamic = {x = {[1] = range or "x_1"}}})
         end, "x_1 of the inputs")
      end
      local function branch(x)
         if x:size(1) > 3 then return x * 2 end
         return x + 1
      end
      refused(branch, 8)
      refused(branch, 2)
      assert.same({2, 2, 2, 2}, torch.export(branch, {torch.ones(8)}, {dynamic = {x = {[1] = {min = 4}}}})(
         torch.ones(4)):tolist())
      refused(function(x) return x.shape[1] < 50 and x * 2 or x + 1 end, 8)
      refused(function(x) return x.shape[1] == 400 and x * 2 or x + 1 end, 8, {name = "x_1", max = 400})
      refused(function(x) return x.shape[1] % 2 == 0 and x * 2 or x + 1 end, 8)
   end)

   it("are refused if the model branches where several are at their limits", function()
      local function refused(fn, dynamic, text)
         assert.error_matches(function()
            torch.export(fn, {torch.ones(4), torch.ones(3)}, {dynamic = dynamic})
         end, text)
      end
      local dynamic = {x = {[1] = {max = 32}}, y = {[1] = {min = 2, max = 16}}}
      refused(function(x, y) return x:size(1) == 32 and y:size(1) == 16 and x:sum() + y or x:sum() - y end, dynamic,
         "sizes of the inputs.*the call with x_1 = 32, y_1 = 16 differs from that of the example")
      refused(function(x, y) return x:size(1) * y:size(1) > 500 and x:sum() + y or x:sum() - y end, dynamic,
         "the call with x_1 = 32, y_1 = 16 differs")
      refused(function(x, y) return x:size(1) + y:size(1) == 4 and x:sum() + y or x:sum() - y end, dynamic,
         "the call with x_1 = 2, y_1 = 2 differs")
      local program = torch.export(function(x, y)
         assert(x:size(1) * y:size(1) < 500)
         return x:sum() + y
      end, {torch.ones(4), torch.ones(3)}, {dynamic = dynamic})
      assert.equal(10, program(torch.ones(9), torch.ones(5))[1]:item())
   end)

   it("begin where the model's ways agree", function()
      local program = torch.export(function(x)
         if x.shape[1] == 1 then return x * 2 end
         return x + 1
      end, {torch.ones(3)}, {dynamic = {x = {1}}})
      assert.error_matches(function() program(torch.ones(1)) end, "x: expected a size of at least 2 in dimension 1")
      assert.same({2, 2}, program(torch.ones(2)):tolist())
   end)

   it("are dimensions of inputs", function()
      assert.error_matches(function() torch.export(nn.ReLU(), {torch.ones(3)}, {dynamic = {imput = {1}}}) end,
         "export: dynamic: unknown option imput; did you mean input")
      assert.error_matches(function() torch.export(nn.ReLU(), {torch.ones(3)}, {dynamic = {input = {2}}}) end,
         "export: dynamic: input: expected dimensions of a tensor with 1, got 2")
   end)
end)

describe("a step that a program cannot repeat", function()
   local x = torch.randn(4)

   -- Checks that fn cannot be exported, and that the error names a line of fn.
   local function refused(pattern, fn, inputs)
      local ok, message = pcall(torch.export, fn, inputs or {x})
      assert.False(ok)
      assert.matches(pattern, message)
      local line = tonumber(message:match "export_spec.lua:(%d+): ")
      local info = debug.getinfo(fn, "S")
      assert(line and line >= info.linedefined and line <= info.lastlinedefined, message)
   end

   it("is a value on the host", function()
      refused("item: expected no use of a tensor's values", function(t)
         if t:sum():item() > 0 then return t end
         return -t
      end)
      refused("tolist: expected no use", function(t) return t + t:tolist()[1] end)
      refused("tostring: expected no use", function(t) return t, tostring(t) end)
      refused("apply_: expected no use", function(t) return t:clone():apply_(function(v) return v end) end)
      refused("storage: expected no use", function(t) return t + t:storage()[1] end)
      refused("allclose: it returns a value", function(t) return torch.allclose(t, t) and t end)
      refused("equal: it returns a value", function(t) return t:equal(t) and t end)
   end)

   it("is a size that depends on values", function()
      refused("index: the sizes of its result depend on values", function(t) return t[t:gt(0)] end)
      refused("nonzero: the sizes", function(t) return t:nonzero() end)
      refused("unique: the sizes", function(t) return (t:unique()) end)
      refused("masked_select: the sizes", function(t) return t:masked_select(t:gt(0)) end)
      refused("one_hot: without num_classes", function(t) return F.one_hot(t) end, {torch.tensor {1, 2}})
   end)

   it("is a change of an input or of a constant", function()
      local table_of_numbers = torch.ones(4)
      refused("add_: it changes an input", function(t) return t:add_(1) end)
      refused("add_: it changes an input", function(t) return t[{{1, 2}}]:add_(1) end)
      refused("add_: it changes a tensor that is a constant", function(t) return table_of_numbers:add_(t) end)
   end)

   it("is a number of the host's that differs from call to call", function()
      local calls = 0
      assert.error_matches(function()
         torch.export(function(t)
            calls = calls + 1
            return t * calls
         end, {x})
      end, "export: the variable calls has another value in each call of the function, which reads it")
      local state, model = {n = 0, log = {}}, nn.Linear(3, 3)
      for name, forward in pairs {
         ["state.n"] = function(t)
            local n = state.n + 1
            state.n = n
            return n > 50 and t * 2 or t
         end,
         ["rest"] = function(t)
            model.rest = (model.rest or 50) - 1
            return model.rest < 0 and t * 2 or t
         end,
         ["the length of state.log"] = function(t)
            state.log[#state.log + 1] = t:detach()
            return #state.log > 50 and t * 2 or t
         end,
      } do
         model.forward = function(_, t) return forward(t) end
         local function export() torch.export(model, {x}) end
         assert.error_matches(export, "export: " .. name .. " has another value in each call")
      end
      model.forward = function(_, t)
         state.m = (state.m or 0) + 1
         state.log[#state.log + 1] = t:detach()
         return t * 2
      end
      assert(torch.export(model, {x})(x):equal(x * 2))
   end)

   it("is a sparse buffer, input or result", function()
      local model = nn.Sequential(nn.Linear(3, 3))
      model.graph = nn.Buffer(torch.eye(3):to_sparse_csr())
      local sparse, dense = torch.eye(3):to_sparse(), torch.ones(3, 3)
      for text, call in pairs {
         ["buffer graph: expected a dense tensor, got one of layout sparse_csr"] = {model, {dense}},
         ["a: expected a dense tensor, got one of layout sparse_coo"] = {function(a) return a:sum() end, {sparse}},
         ["result.1: expected a dense tensor, got one of layout sparse_coo"] = {function() return sparse end, {dense}},
      } do
         assert.error_matches(function() torch.export(call[1], call[2]) end, "export: " .. text)
      end
   end)

   it("is a change that no operator made", function()
      assert.error_matches(function()
         torch.export(function(t)
            local y = t * 2
            y.data = t * 3
            return y
         end, {x})
      end, "was changed by data, which a program cannot repeat")
      local made_before = torch.zeros(1)
      refused("sum: out: torch.export records no writes to it", function(t)
         torch.sum(t, {out = made_before})
         return made_before
      end)
   end)

   it("is a change of a parameter", function()
      local model = nn.Linear(4, 4)
      local forward = model.forward
      function model:forward(t)
         self.weight:mul_(2)
         return forward(self, t)
      end
      local before = model.weight:detach():clone()
      assert.error_matches(function() torch.export(model, {torch.randn(3, 4)}) end,
         "mul_: it changes the parameter weight, so torch.export cannot record it; torch.export_step records training")
      assert(before:equal(model.weight))
   end)

   it("is a backward pass", function()
      local model = nn.Linear(4, 1)
      assert.error_matches(function()
         torch.export(function(t)
            local _ <close> = torch.enable_grad()
            model(t):sum():backward()
            return t
         end, {x})
      end, "backward: torch.export records no gradients; torch.export_step does")
   end)

   it("leaves no trace behind", function()
      pcall(torch.export, function(t) return t:item() end, {x})
      assert.equal(1, torch.ones(1):item())
      assert.False(torch._profiling and torch._profiling() or false)
   end)

   it("is a program that the model calls", function()
      local inner = torch.export(function(t) return t * 2 end, {x})
      assert.error_matches(function() torch.export(function(t) return inner(t) + 1 end, {x}) end,
         "does not record a program that a model calls")
      assert(inner(x):equal(x * 2))
   end)

   it("is a trace within a trace", function()
      assert.error_matches(function()
         torch.export(function(t) return torch.export(nn.ReLU(), {t})(t) end, {x})
      end, "already being traced")
   end)
end)

describe("a program", function()
   it("checks its inputs by name", function()
      local program = torch.export(nn.Linear(3, 2), {torch.ones(4, 3)})
      local function refused(pattern, ...)
         local given = {...}
         assert.error_matches(function() program(table.unpack(given)) end, pattern)
      end
      refused("input: expected size 3 in dimension 2, as in the exported call, got sizes %[4, 2%]", torch.ones(4, 2))
      refused("input: expected 2 dimensions, as in the exported call, got sizes %[3%]", torch.ones(3))
      refused("input: expected dtype float32, as in the exported call, got float64", torch.ones(4, 3):double())
      refused("inputs: expected 1 tensors, as in the exported call, got 2", torch.ones(4, 3), torch.ones(1))
      refused("inputs.1: expected a tensor, or a table of tensors, got", "x")
   end)

   it("runs in the mode in which the model was exported", function()
      local program = torch.export(nn.Linear(3, 2):eval(), {torch.ones(4, 3)})
      assert.error_matches(function() program:train()(torch.ones(4, 3)) end,
         "expected training = false, the mode in which the model was exported, got true")
      assert.same({4, 2}, program:eval()(torch.ones(4, 3)).shape)
   end)

   it("takes inputs that are not row-major", function()
      local model = nn.Linear(3, 2)
      local program = torch.export(model, {torch.ones(4, 3)})
      local t = torch.randn(3, 4):t()
      assert(program(t):equal(model(t:contiguous()):detach()))
   end)

   it("is printed as its operators", function()
      local model = nn.Sequential(nn.Linear(3, 2), nn.Tanh())
      local program = torch.export(model, {torch.ones(4, 3)}, {dynamic = {input = {1}}})
      assert.equal([[
Program(input: float32 {input_1, 3})
  t1 = linear(input, 1.weight, 1.bias)
  t2 = tanh(t1)
  return t2
2 calls, 2 constants of 32 bytes; the first run plans the memory]], tostring(program))
      program(torch.ones(4, 3))
      local bytes, live = program:memory()
      assert.matches(("a run needs %d bytes, of which %d are in use at once"):format(bytes, live), tostring(program))
   end)

   it("reuses no block that another value still uses, when only some runs copy their input", function()
      local function f(x)
         local a = x * 2
         local b = a + 1
         local c = b * 3
         return c * 5 + b
      end
      for _, n in ipairs {2, 50, 3000} do
         local x, apart = torch.randn(n), torch.randn(n, 2):select(2, 1)
         local program = torch.export(f, {x})
         for _, y in ipairs {apart, apart, x, x, apart, x} do assert(program(y):equal(f(y))) end
      end
   end)

   it("plans at most 1.15 times the memory that is in use at once", function()
      local wide = nn.Sequential()
      for i = 1, 12 do wide:add(nn.Linear(8 * i, 8 * (i + 1))):add(nn.Sigmoid()) end
      local models = {
         {convnet():eval(), torch.randn(4, 1, 16, 16)}, {wide, torch.randn(16, 8)},
         {nn.TransformerEncoderLayer(32, 4, {dim_feedforward = 64, batch_first = true}):eval(), torch.randn(2, 10, 32)},
         {nn.LSTM(8, 16, {num_layers = 2}), torch.randn(7, 2, 8)},
      }
      for i, case in ipairs(models) do
         local program = torch.export(case[1], {case[2]})
         program(case[2])
         local bytes, live = program:memory()
         assert(live > 0 and bytes >= live and bytes <= 1.15 * live, ("model %d: %d of %d"):format(i, bytes, live))
      end
   end)

   it("has the model's parameters by name, and so has its file, which torch.load reads", function()
      local model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1))
      local program, path = torch.export(model, {torch.ones(4, 3)}), os.tmpname()
      program:save(path)
      local state, stored = program:state_dict(), torch.load(path)
      os.remove(path)
      for name, value in pairs(model:state_dict()) do
         assert(state[name]:equal(value), name)
         assert(stored[name]:equal(value:cpu()), name) -- torch.load reads the values into the memory of the CPU
      end
   end)

   it("refuses options and arguments that it does not know", function()
      assert.error_matches(function() torch.export(nn.ReLU(), {torch.ones(1)}, {dynamics = {}}) end,
         "did you mean dynamic")
      assert.error_matches(function() torch.export(3, {torch.ones(1)}) end,
         "export: model: expected a module or a function")
      assert.error_matches(function() torch.export(nn.ReLU(), 3) end, "export: inputs: expected a list")
      local cyclic, deep = {torch.ones(1)}, torch.ones(1)
      cyclic[2] = {inner = cyclic}
      assert.error_matches(function() torch.export(function(t) return t[1] end, {cyclic}) end,
         "export: t.2.inner: expected no table that contains itself")
      for _ = 1, 30 do deep = {deep} end
      assert.error_matches(function() torch.export(function(t) return t end, {deep}) end,
         "expected tables that are nested at most 24 deep")
      local function loop(t)
         local r = {t}
         r[2] = r
         return r
      end
      assert.error_matches(function() torch.export(loop, {torch.ones(1)}) end,
         "export: result.1.2: expected no table that contains itself")
      assert.error_matches(function() torch.export(function() end, {torch.ones(1)}) end, "the model returns nothing")
      assert.error_matches(function() torch.export(function() return 3 end, {torch.ones(1)}) end,
         "export: result.1: expected a tensor, or a table of tensors, got 3")
      assert.error_matches(function() return torch.export.lod end, "no field 'lod'")
      assert.error_matches(function() torch.export.save({}, "x") end, "export.save: program: expected a program")
      assert.error_matches(function() torch.export.load "/nonexistent.tlp" end,
         "export.load: /nonexistent.tlp: No such file")
   end)
end)
