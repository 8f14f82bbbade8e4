-- Tests constants: dtypes, devices and numbers, and the errors for unknown names.

local torch = require "tlua"

describe("a dtype's constant", function()
   it("is its name, which x.dtype gives", function()
      for name in ([[float32 float64 float16 bfloat16 int8 int16 int32 int64 uint8
         bool]]):gmatch "%S+" do
         assert.equal(name, torch[name])
         assert.equal(torch[name], torch.zeros(1, {dtype = torch[name]}).dtype)
      end
   end)

   it("is also found under PyTorch's other names", function()
      for alias, name in pairs {float = "float32", double = "float64", half = "float16",
         short = "int16", int = "int32", long = "int64", cfloat = "complex64",
         cdouble = "complex128"} do
         assert.equal(name, torch[alias])
      end
      assert.equal("int64", torch.zeros(1, {dtype = torch.long}).dtype)
      assert.equal("float64", torch.ones(1):to(torch.double).dtype)
   end)

   it("raises an error if tlua lacks the dtype", function()
      for name, of in pairs {
         float4_e2m1fn_x2 = "float4_e2m1fn_x2", quint4x2 = "quint4x2"} do
         assert.raises(("torch.%s: tlua has no dtype %s"):format(name, of), function() return torch[name] end)
         assert.is_false(torch.has(name))
      end
      assert.raises("torch: no field 'flaot32'. Did you mean torch.float32?", function() return torch.flaot32 end)
   end)
end)

it("a constant number has PyTorch's value", function()
   assert.equal(math.huge, torch.inf)
   assert.equal(math.pi, torch.pi)
   assert.equal(math.exp(1), torch.e)
   assert.is_true(torch.nan ~= torch.nan)
   assert.equal("strided", torch.strided)
   assert.equal(torch._VERSION, torch.__version__)
   assert.same({1, 3}, torch.ones(3)[{torch.newaxis}].shape)
end)

describe("torch.device", function()
   local device = torch.device

   it("has a type and an index", function()
      for name, expected in pairs {["cuda:1"] = {"cuda", 1}, cuda = {"cuda"}, cpu = {"cpu"},
         ["cpu:0"] = {"cpu", 0}, ["sim:3"] = {"sim", 3}} do
         assert.same(expected, {device(name).type, device(name).index})
         assert.equal(name, tostring(device(name)))
      end
   end)

   it("may be created from a type and an index, options, a number or a device", function()
      assert.equal(device "cuda:1", device("cuda", 1))
      assert.equal(device "cuda:1", device {type = "cuda", index = 1})
      assert.equal(device "cuda:1", device(1))
      assert.equal(device "cuda:1", device(device "cuda:1"))
      assert.equal(device "sim:1", device(device "sim", 1))
      assert.not_equal(device "cuda", device "cuda:0")
   end)

   it("is one value for each name, also as a key", function()
      local seen = {[device "sim:1"] = "here"}
      assert.equal("here", seen[device("sim", 1)])
      assert.equal("on sim:1", "on " .. device "sim:1")
   end)

   it("is the type of the device of a tensor, a generator, a stream and the default device", function()
      local x = torch.ones(1, {device = "sim"})
      assert.equal(device "sim:0", x.device)
      assert.is_true(x.device == torch.zeros(2, {device = "sim"}).device)
      assert.equal("sim", x.device.type)
      assert.equal(0, x.device.index)
      assert.equal(device "cpu", torch.ones(1, {device = "cpu"}).device)
      assert.is_nil(torch.ones(1, {device = "cpu"}).device.index)
      assert.equal("on sim:0, sim:0", "on " .. x.device .. (", %s"):format(x.device))
      assert.equal(device "sim:0", torch.sim.current_stream().device)
      assert.equal(device "sim:0", torch.Generator("sim").device)
      assert.equal(device "cpu", torch.Generator().device)
      assert.equal(device "cpu", torch.default_device("cpu", torch.get_default_device))
      assert.equal("torch.device", torch.type(x.device))
      assert.equal(1, ({[x.device] = 1})[device "sim:0"])
   end)

   it("costs no memory when a tensor's device is read", function()
      local x = torch.ones(1)
      local _ = x.device
      collectgarbage "stop"
      local before = collectgarbage "count"
      for _ = 1, 1000 do _ = x.device end
      local after = collectgarbage "count"
      collectgarbage "restart"
      -- collectgarbage "count" returns kilobytes. If each read of x.device made a new value, the difference would be 40
      -- KB.
      assert.is_true(after - before < 4)
   end)

   it("raises an error for methods of strings", function()
      assert.raises("torch.device: expected the field type or index, got string 'match'",
         "need tostring(device)", function() return torch.ones(1).device:match "cpu" end)
   end)

   it("is saved and loaded in .pt and safetensors, and as text in JSON",
   function()
      local here, there = device "cpu", device "cuda:1"
      for _, name in ipairs {"device.pt", "device.safetensors"} do
         local path = os.tmpname()
         os.remove(path)
         path = path .. name
         torch.save({a = here, list = {there}, x = torch.ones(1)}, path)
         local loaded = torch.load(path)
         os.remove(path)
         assert.equal(here, loaded.a)
         assert.equal(there, loaded.list[1])
      end
      assert.equal('{"at":"cuda:1"}', require "tlua.utils.json".encode {at = there})
   end)

   it("is accepted in place of a device's name", function()
      local sim = device "sim"
      assert.equal(torch.device "sim:0", torch.zeros(2, {device = sim}).device)
      assert.equal(torch.device "sim:0", torch.ones(2):to(sim).device)
      assert.equal("float64", torch.ones(2):to(sim, "float64").dtype)
      assert.equal(torch.device "cpu", torch.ones(2, {device = sim}):to {device = device "cpu"}.device)
      assert.equal(torch.device "sim:0", torch.nn.Linear(1, 1, {device = sim}).weight.device)
      assert.equal(torch.device "sim:0", torch.nn.Linear(1, 1):to(sim).weight.device)
      assert.equal(torch.device "sim:0", torch.nn.Linear(1, 1):to({device = sim}).weight.device)
      assert.equal(0, torch.sim.get_device_index(sim))
      assert.is_number(torch.sim.memory_allocated(device "sim:0"))
      assert.is_number(torch.memory_allocated(device "cpu"))
      local before = torch.get_default_device()
      torch.set_default_device(sim)
      local made = torch.ones(1).device
      torch.set_default_device(before)
      assert.equal(device "sim:0", made)
      do
         local _ <close> = torch.autocast(device "cpu")
         assert.is_true(torch.is_autocast_enabled(device "cpu"))
      end
   end)

   it("can be sent to a worker", function()
      local program = assert(load([[
         local torch = require "tlua"
         local device = torch.device "sim:1"
         local function work() return {device == torch.device "sim:1" and device.index} end
         for batch in torch.data.DataLoader({1}, {num_workers = 1, collate_fn = work}):iter() do
            return batch[1]
         end]], "=program"))
      assert.equal(1, program())
   end)

   it("refuses values that are not devices", function()
      assert.raises([[device: type: expected a device such as "cpu" or "cuda:0", got string 'mps'; ]]
         .. "the devices are cpu, cuda", function() device "mps" end)
      assert.raises("device: type: expected a device", "got nothing", function() device() end)
      assert.raises("device: type: expected a device", "got nil", function() device(nil) end)
      assert.raises("device: index: cuda:0 has a number already, got 1", function() device("cuda:0", 1) end)
      assert.raises("device: index: expected a device's number, from 0, got -1", function() device("cuda", -1) end)
      assert.raises("device: unknown option idx; there are type and index",
         function() device {type = "cpu", idx = 1} end)
      assert.raises("torch.device: expected the field type or index, got string 'typ'",
         function() return device("cpu").typ end)
   end)
end)

describe("an argument that is a dtype or a device", function()
   local x = torch.ones(2)

   it("is named in the error if it is unknown", function()
      assert.raises("to: dtype or device: unknown 'ints16'; did you mean 'int16'?", function() x:to "ints16" end)
      assert.raises("to: dtype or device: unknown 'quux'; the dtypes are float32, float64",
         "the devices are cpu, cuda", function() x:to "quux" end)
      assert.raises("to: dtype: unknown 'flaot32'; did you mean 'float32'?", function() x:to {dtype = "flaot32"} end)
      assert.raises("zeros: dtype: expected a dtype such as \"float32\", got string 'flaot32'; "
         .. "did you mean 'float32'?", function() torch.zeros(1, {dtype = "flaot32"}) end)
      assert.raises("zeros: device:", "got string 'gpu'; the devices are cpu, cuda",
         function() torch.zeros(1, {device = "gpu"}) end)
      assert.raises("nn.Linear: device: expected a device such as \"cpu\" or \"cuda:0\", got \"gpu\"",
         function() torch.nn.Linear(1, 1, {device = "gpu"}) end)
   end)

   it("must not be nil", function()
      assert.raises("to: dtype: expected a dtype or device, got nil", function() x:to(nil) end)
      assert.raises("type: dtype: expected a dtype such as \"float32\", got nil", function() x:type(nil) end)
      assert.raises("zeros: too many arguments: nil", function() torch.zeros(1, nil) end)
      assert.raises("to: argument 1: expected a device or a floating-point dtype, got nil",
         function() torch.nn.Linear(1, 1):to(nil) end)
   end)
end)

describe("an unknown option", function()
   it("is named with the nearest option, or with all options", function()
      assert.raises("sum: unknown option 'keepdmi'; did you mean 'keepdim'?",
         function() torch.ones(2):sum {keepdmi = true} end)
      assert.raises("to: unknown option 'quux'; usage: to(self, dtype", function() torch.ones(2):to {quux = true} end)
      assert.raises("nn.Linear: unknown option quux; there are in_features, out_features, bias, ",
         function() torch.nn.Linear(1, 1, {quux = true}) end)
      assert.raises("optim.Adam: unknown option quux; there are amsgrad, betas, ",
         function() torch.optim.Adam({torch.ones(1)}, {quux = true}) end)
   end)

   it("is refused with a list if a method reads its options by itself", function()
      local net = torch.nn.Linear(1, 1)
      local optimizer = torch.optim.SGD(net:parameters(), {lr = 0.1})
      local dataset = torch.data.TensorDataset(torch.zeros(2, 1))
      local rows = {
         {"to: unknown option dtyp; did you mean dtype?; there are device, dtype, memory_format",
            function() net:to {dtyp = "float64"} end},
         {"state_dict: unknown option nmes; did you mean names?; there are prefix, names",
            function() net:state_dict {nmes = "pytorch"} end},
         {"register_buffer: unknown option persistant; did you mean persistent?",
            function() net:register_buffer("b", torch.zeros(1), {persistant = false}) end},
         {"register_buffer: persistent: expected a boolean, got 1",
            function() net:register_buffer("b", torch.zeros(1), 1) end},
         {"zero_grad: unknown option set_to_nil; did you mean set_to_none?; there are set_to_none",
            function() net:zero_grad {set_to_nil = false} end},
         {"zero_grad: unknown option set_to_nil", function() optimizer:zero_grad {set_to_nil = false} end},
         {"register_state_dict_pre_hook: unknown option prepand; did you mean prepend?",
            function() optimizer:register_state_dict_pre_hook(print, {prepand = true}) end},
         {"optim.SGD.state_dict: unknown option name; did you mean names?; there are names",
            function() optimizer:state_dict {name = "pytorch"} end},
         {"data.DataLoader: unknown option num_worker; did you mean num_workers?",
            function() torch.data.DataLoader(dataset, 2, true, {num_worker = 1}) end},
      }
      for _, row in ipairs(rows) do assert.raises(row[1], row[2]) end
      assert.is_nil(net.b)
   end)

   it("is not an option if an optional table is the last argument and no parameter has the name",
      function()
         local path = os.tmpname()
         torch.save({x = torch.zeros(1)}, path, {author = "me"})
         local _, metadata = torch.load(path, {metadata = true})
         os.remove(path)
         assert.same({author = "me"}, metadata)
      end)
end)
