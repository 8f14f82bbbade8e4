-- Tests tensors on the meta device: their properties, the operations that they refuse, and the scope in which new
-- tensors are on meta.

local numbers = require "spec.support.numbers"
local shell = require "spec.support.shell"
local torch = require "tlua"

local meta <const> = {device = "meta"}

local default
setup(function()
   default = torch.get_default_device()
   torch.set_default_device "cpu"
end)
teardown(function() torch.set_default_device(default) end)

describe("a meta tensor", function()
   it("prints as PyTorch's does", function()
      assert.equal("tensor(..., device='meta', size=(2, 3))", tostring(torch.empty(2, 3, meta)))
      assert.equal("tensor(..., device='meta', size=())", tostring(torch.empty({}, meta)))
      assert.equal("tensor(..., device='meta', size=(0,))", tostring(torch.empty(0, meta)))
      assert.equal("tensor(..., device='meta', size=(3,), dtype=torch.int64)",
         tostring(torch.zeros(3, {dtype = "int64", device = "meta"})))
      local x = torch.empty(3, {device = "meta", requires_grad = true})
      assert.equal("tensor(..., device='meta', size=(3,), requires_grad=True)", tostring(x))
      assert.equal("tensor(..., device='meta', size=(3,), grad_fn=<MulBackward0>)", tostring(x * 2))
   end)

   it("has a shape, a dtype and strides, and no memory", function()
      local live = torch.memory_stats().live
      local x = torch.empty(1 << 20, 1 << 20, {dtype = "float64", device = "meta"})
      assert.same({1 << 20, 1 << 20}, x.shape)
      assert.equal(1 << 43, x.nbytes)
      assert.equal(torch.device "meta", x.device)
      assert.is_true(x.is_meta)
      assert.is_false(x.is_cpu)
      assert.equal(0, x:data_ptr())
      local view = x:t():narrow(1, 5, 7)
      assert.same({7, 1 << 20}, view.shape)
      assert.same({1, 1 << 20}, view:stride())
      assert.equal(4, view:storage_offset())
      assert.equal(0, view:data_ptr())
      assert.is_true(torch.memory_stats().live - live < 1000)
      assert.is_false(torch.ones(1).is_meta)
   end)

   it("has less than 2^63 bytes", function()
      assert.raises("empty: sizes [1099511627776, 8388608]: expected less than 2^63 bytes",
         function() torch.empty(1 << 40, 1 << 23, meta) end)
   end)

   it("is on a single device", function()
      assert.equal(torch.device "meta", torch.empty(1, {device = "meta:0"}).device)
      assert.raises("device meta:1", function() torch.empty(1, {device = "meta:1"}) end)
   end)

   it("can be made from any tensor, with its strides, also from an expanded one", function()
      local x = torch.arange(24):view(2, 3, 4):permute {3, 1, 2}
      assert.same(x:stride(), x:to "meta":stride())
      local wide = torch.ones(1):expand(1 << 20, 1 << 20):to "meta"
      assert.same({1 << 20, 1 << 20}, wide.shape)
      assert.equal("float64", wide:to("meta", "float64").dtype)
      assert.equal("float64", torch.ones(1):expand(1 << 20, 1 << 20):to("meta", "float64").dtype)
      assert.equal(torch.device "meta", torch.empty_like(x, meta).device)
      assert.equal(torch.device "cpu", torch.empty_like(x:to "meta", {device = "cpu"}).device)
   end)

   it("changes in place, by out= and through views", function()
      local x = torch.empty(4, 4, meta)
      x:add_(1):mul_(x):t_()
      x[1] = 5
      x[{{}, 2}] = torch.tensor(3)
      x[x:gt(0)] = 1
      x:copy_(torch.ones(4))
      assert.raises("copy_", function() x:copy_(torch.ones(5)) end)
      local out = torch.empty(0, meta)
      torch.add(x, x, {out = out})
      assert.same({4, 4}, out.shape)
      out:resize_(1 << 20, 1 << 20)
      assert.same({1 << 20, 1 << 20}, out.shape)
      local before = x._version
      x:t():view(16):zero_()
      assert.equal(before + 1, x._version)
   end)

   it("can be combined only with numbers, one-element CPU tensors and meta tensors", function()
      local x = torch.empty(2, 3, meta)
      assert.equal(torch.device "meta", (x + torch.tensor(3)).device)
      assert.equal("float32", (torch.tensor(3, {dtype = "float64"}) * x).dtype)
      assert.raises("add: expected all tensors on one device, got self on cpu and other on meta",
         function() return torch.ones(2, 3) + x end)
      assert.raises("matmul: expected all tensors on one device", function() return x:matmul(torch.ones(3, 2)) end)
      assert.raises("out is on cpu", function() torch.add(x, x, {out = torch.empty(2, 3)}) end)
   end)

   it("draws no random numbers", function()
      torch.manual_seed(3)
      local expected = torch.rand(2):tolist()
      torch.manual_seed(3)
      local generator = torch.Generator()
      generator:manual_seed(3)
      torch.randn(5, meta)
      torch.randperm(5, meta)
      torch.empty(5, meta):uniform_():normal_()
      torch.nn.functional.dropout(torch.empty(5, meta), 0.5)
      torch.multinomial(torch.empty(5, meta), 2)
      torch.empty(5, meta):random_(10, {generator = generator})
      assert.same(expected, torch.rand(2):tolist())
      assert.same(expected, torch.rand(2, {generator = generator}):tolist())
   end)

   it("accepts values through a mask, whatever their number", function()
      local function mask(...) return torch.zeros({...}, {device = "meta", dtype = "bool"}) end
      local x = torch.empty(4, 3, meta)
      x[mask(4)] = torch.empty(2, 3, meta)
      x[mask(4)] = torch.empty(3, meta)
      x[mask(4, 3)] = torch.empty(5, meta)
      x[{{}, mask(3)}] = torch.empty(4, 2, meta)
      x[mask(4)] = 1
      x[mask(4, 3)] = torch.empty({}, meta)
      assert.same({4, 3}, x.shape)
      assert.raises("index_put: values", function() x[mask(4)] = torch.empty(9, 3, meta) end)
      assert.raises("index_put: values", function() x[mask(4)] = torch.empty(2, 2, meta) end)
      assert.raises("index: mask of shape [3]", function() x[mask(3)] = torch.empty(2, 3, meta) end)
      assert.raises("a meta tensor has no values", function() return x[mask(4)] end)
   end)

   it("is accepted by ctc_loss, in each form of the lengths", function()
      local ctc = torch.nn.functional.ctc_loss
      local long = {device = "meta", dtype = "int64"}
      local x = torch.empty(5, 2, 4, {device = "meta", requires_grad = true})
      for _, lengths in ipairs {{{5, 5}, {3, 2}}, {torch.tensor {5, 5}, torch.tensor {3, 2}},
                                {torch.empty(2, long), torch.empty(2, long)}} do
         for _, targets in ipairs {torch.empty(2, 3, long), torch.empty(5, long)} do
            local loss = ctc(x, targets, lengths[1], lengths[2])
            assert.same({}, loss.shape)
            local grad = torch.autograd.grad(loss, x)
            assert.same({5, 2, 4}, grad.shape)
            assert.equal(torch.device "meta", grad.device)
            assert.same({2}, ctc(x, targets, lengths[1], lengths[2], {reduction = "none"}).shape)
         end
      end
      assert.raises("ctc_loss: input_lengths[1]: expected 0 to 5, got 6",
         function() ctc(x, torch.empty(2, 3, long), {6, 5}, {3, 2}) end)
   end)

   it("is differentiated twice", function()
      local x = torch.empty(2, 3, {device = "meta", requires_grad = true})
      local grad = torch.autograd.grad((x ^ 3):sum(), {x}, {create_graph = true})
      local second = torch.autograd.grad(grad:sum(), {x})
      assert.equal(torch.device "meta", second.device)
      assert.same({2, 3}, second.shape)
      assert.same({2, 3}, torch.func.grad(function(w) return (w * w):sum() end)(x:detach()).shape)
      assert.same({2}, torch.func.vmap(function(w) return (w * w):sum() end)(x:detach()).shape)
   end)
end)

describe("a meta tensor has no values for", function()
   local x = torch.empty(2, 3, meta)
   local one = torch.empty({}, meta)
   local calls <const> = {
      item = function() return one:item() end,
      tolist = function() return x:tolist() end,
      cpu = function() return x:cpu() end,
      to = function() return x:to "cpu" end,
      copy_ = function() return torch.ones(2, 3):copy_(x) end,
      nonzero = function() return x:nonzero() end,
      unique = function() return x:unique() end,
      masked_select = function() return x:masked_select(x:gt(0)) end,
      index = function() return x[x:gt(0)] end,
      equal = function() return torch.equal(x, x) end,
      allclose = function() return torch.allclose(x, x) end,
      is_nonzero = function() return torch.is_nonzero(one) end,
      bincount = function() return torch.bincount(torch.empty(3, {dtype = "int64", device = "meta"})) end,
      one_hot = function() return torch.nn.functional.one_hot(torch.empty(3, {dtype = "int64", device = "meta"})) end,
      comparison = function() return one < 3 end,
      tensor = function() return torch.tensor {one, 2} end,
   }
   for name, call in pairs(calls) do
      it(name, function()
         assert.raises(name .. ": a meta tensor has no values to read or copy; ", "to_empty", call)
      end)
   end

   it("files", shell.in_folder(function(folder)
      assert.raises("x: the tensor is on the meta device",
         function() torch.save({x = x}, folder .. "/x.safetensors") end)
   end))

   it("pinned memory", function()
      assert.raises("pin_memory: expected a tensor of the CPU, got one of meta", function() x:pin_memory() end)
   end)

   it("a gradient that leaves the device", function()
      local weight = torch.ones(3, {requires_grad = true})
      local loss = weight:to "meta":sum()
      assert.raises("a meta tensor has no values", function() loss:backward() end)
   end)
end)

describe("torch.load", function()
   it("loads shapes and dtypes with map_location meta", shell.in_folder(function(folder)
      for _, name in ipairs {"/x.safetensors", "/x.pt"} do
         torch.save({a = torch.ones(2, 3), b = torch.zeros(4, {dtype = "int64"})}, folder .. name)
         local state = torch.load(folder .. name, {map_location = "meta"})
         assert.equal("tensor(..., device='meta', size=(2, 3))", tostring(state.a))
         assert.equal("tensor(..., device='meta', size=(4,), dtype=torch.int64)", tostring(state.b))
      end
   end))
end)

describe("torch.default_device", function()
   it("makes new tensors on a device, and passes results on", function()
      local x, n = torch.default_device("meta", function(size)
         assert.equal(torch.device "meta", torch.get_default_device())
         return torch.zeros(size), 7
      end, 3)
      assert.equal(torch.device "meta", x.device)
      assert.same({3}, x.shape)
      assert.equal(7, n)
      assert.equal(torch.device "cpu", torch.get_default_device())
      assert.equal(torch.device "cpu", torch.zeros(1).device)
   end)

   it("equals torch.device with a function, and accepts device values", function()
      assert.equal(torch.device "meta", torch.device("meta", function(n) return torch.ones(n) end, 3).device)
      assert.equal(torch.device "meta", torch.default_device(torch.device "meta", torch.ones, 3).device)
      assert.equal(torch.device "cpu", torch.ones(1).device)
      local layer = torch.nn.Linear(2, 2, {device = torch.device "meta"})
      assert.equal(torch.device "meta", layer:to(torch.device "meta").weight.device)
      assert.equal(torch.device "cpu", layer:to_empty {device = torch.device "cpu"}.weight.device)
   end)

   it("lasts until the end of a block, and can be nested", function()
      do
         local _ <close> = torch.default_device "meta"
         assert.equal(torch.device "meta", torch.tensor {1, 2}.device)
         assert.equal(torch.device "meta", torch.arange(3).device)
         assert.equal(torch.device "meta", torch.nn.Linear(2, 3).weight.device)
         assert.equal(torch.device "cpu", torch.ones(2, {device = "cpu"}).device)
         torch.default_device("cpu", function() assert.equal(torch.device "cpu", torch.ones(1).device) end)
         assert.equal(torch.device "meta", torch.ones(1).device)
      end
      assert.equal(torch.device "cpu", torch.ones(1).device)
   end)

   it("ends with an error", function()
      assert.falsy(pcall(torch.default_device, "meta", function() error "no" end))
      assert.equal(torch.device "cpu", torch.get_default_device())
   end)

   it("belongs to one coroutine", function()
      local co = coroutine.wrap(function()
         local _ <close> = torch.default_device "meta"
         coroutine.yield(torch.ones(1).device)
         return torch.ones(1).device
      end)
      assert.equal(torch.device "meta", co())
      assert.equal(torch.device "cpu", torch.ones(1).device)
      assert.equal(torch.device "meta", co())
   end)

   it("names the mistake", function()
      assert.raises("default_device: device: expected a device such as \"meta\" or \"cuda:0\", got nothing",
         function() torch.default_device() end)
      assert.raises("got string 'mete'", function() torch.default_device "mete" end)
      assert.raises("default_device: expected a function or nothing, got 3",
         function() torch.default_device("meta", 3) end)
   end)
end)

describe("random programs", function()
   local PROGRAMS <const>, STEPS <const> = 300, 20

   -- Functions that make a tensor from two tensors a and b; b can be broadcast to the shape of a.
   local operators <const> = {
      function(a, b) return a + b end,
      function(a) return a:transpose(1, -1) end,
      function(a) return a:sum(1, {keepdim = true}) * a end,
      function(a) return a:narrow(1, 1, (a:size(1) + 1) // 2):clone() end,
      function(a) return a:unsqueeze(1) end,
      function(a) return a:flip(1) end,
      function(a) return a:squeeze() end,
      function(a) return torch.cat {a, a} end,
      function(a) return a:softmax(-1):to "float64" end,
      function(a) return a:contiguous():view(-1) end,
      function(a) return (a:sort(1)) end,
      function(a) return a:cumsum(-1):to "float32" end,
      function(a) return a:expand(2, table.unpack(a.shape)) end,
      function(a) return torch.where(a:gt(0), a, 1) end,
      function(a, b) return torch.stack({a, b}, 2):select(2, 1) end,
   }
   local changes <const> = {
      function(a) a:add_(1) end,
      function(a) a:clamp_(-1, 1) end,
      function(a) a:select(1, 1):fill_(2) end,
   }

   local function run(number, device)
      local draw, trace = numbers(number), {}
      local x = torch.ones(2, 3, 4, {device = device})
      for i = 1, STEPS do
         local change, operator = draw(4) == 1, draw(#operators)
         if x:dim() == 0 or x:dim() > 5 or x:numel() > 5000 then x = torch.ones(3, 2, {device = device}) end
         if change then
            x = x:clone()
            changes[operator % #changes + 1](x)
         else
            x = operators[operator](x, x)
         end
         trace[i] = ("%d: {%s} {%s} %s %d"):format(operator, table.concat(x.shape, ", "),
            table.concat(x:stride(), ", "), x.dtype, x:storage_offset())
      end
      return trace
   end

   it("have the CPU's shapes, strides and dtypes", function()
      for i = 1, PROGRAMS do assert.same(run(i, "cpu"), run(i, "meta"), "program " .. i) end
   end)
end)
