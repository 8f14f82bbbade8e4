-- Tests torch.autocast: which operators cast their arguments, how scopes nest, when casts are cached, and how autograd
-- Functions behave.

local operators = require "spec.support.table"
local torch = require "tlua"
local sorted = require "spec.support.sorted"
local expected = dofile "spec/fixtures/autocast.lua"
local nn, F = torch.nn, torch.nn.functional

local function autocast(...) return torch.autocast("cpu", ...) end

-- Maps the name of an operator of tlua to its name in PyTorch's lists, where the names differ. If PyTorch composes the
-- operator of several others, the name is that of one of these.
local names_of_lists <const> = {vecdot = "linalg_vecdot", multi_dot = "linalg_multi_dot",
   vector_norm = "linalg_vector_norm", matrix_norm = "linalg_matrix_norm", grid_sample = "grid_sampler"}

describe("the lists of autocast", function()
   local function arguments(row, dtype)
      return operators.map(operators.arguments(row.examples[1]), function(x)
         return x:is_floating_point() and x:detach():to(dtype) or x
      end)
   end

   it("give results the dtypes that PyTorch's give on the CPU", function()
      local compared = 0
      for _, row in ipairs(operators.rows()) do
         local dtypes = expected.cpu[row.form]
         if dtypes and row.examples[1] then
            for i, dtype in ipairs {"float32", "bfloat16"} do
               local args = arguments(row, dtype)
               local ok, results = pcall(function()
                  return torch.autocast("cpu", function() return operators.call(row, args) end)
               end)
               if dtypes[i] ~= "refused" then
                  assert(ok, results)
                  assert.equal(dtypes[i], results[1].dtype, row.form .. " of " .. dtype)
                  compared = compared + 1
               end
            end
         end
      end
      assert.is_true(compared > 220)
   end)

   it("contain all operators of PyTorch's lists for the CPU that tlua has", function()
      for _, row in ipairs(operators.rows()) do
         if row.autocast_cpu and row.examples[1] then
            local known = expected.cpu[row.form] or row.form:find "^cholesky" or row.form:find "several$"
               or row.form:find "^eig" -- the fixture has no complex results, so it lacks these operators
               -- these operators were added after the fixture was recorded
               or row.form == "matrix_sqrth" or row.form == "polar_linalg"
               or row.form == "qr_torch" or row.form == "lu_solve" or row.form == "ctc_loss_lists"
               -- PyTorch has this operator only for GPUs
               or row.form == "_scaled_dot_product_flash_attention"
            assert.truthy(known, row.form .. " is not compared")
         end
      end
   end)

   it("cast in the calls in which PyTorch's cast", function()
      for _, i in ipairs {1, 2} do
         local dtype = ({"float32", "bfloat16"})[i]
         autocast(function()
            for name, dtypes in sorted(expected.pad) do
               local mode, dims = name:match "(%a+) (%d)"
               local shape, pad = {1, 2}, {}
               for d = 1, dims do shape[d + 2], pad[2 * d - 1], pad[2 * d] = 4, 1, 1 end
               local y = F.pad(torch.randn(shape, {dtype = dtype}), pad, mode)
               assert.equal(dtypes[i], y.dtype, name .. " of " .. dtype)
            end
            for n, dtypes in sorted(expected.matrix_power) do
               local y = torch.linalg.matrix_power(torch.eye(3, {dtype = dtype}), n)
               assert.equal(dtypes[i], y.dtype, n .. " of " .. dtype)
            end
         end)
      end
   end)

   it("round a covariance after it was computed, not its inputs", function()
      local x = torch.tensor {{1000.0, 1001, 1002}, {5, 3, 1}}
      local exact = torch.cov(x)
      local low = autocast(function() return torch.cov(x) end)
      assert.equal("bfloat16", low.dtype)
      assert.close(exact:bfloat16(), low, 0)
   end)

   it("equal PyTorch's for GPUs", function()
      local compared = 0
      for _, row in ipairs(operators.rows()) do
         local list = expected.gpu[names_of_lists[row.form] or row.form]
         if list then
            assert.equal(list, row.autocast_gpu, row.form)
            compared = compared + 1
         end
      end
      assert.is_true(compared >= 70, compared)
   end)

   it("apply on the simulated GPU, including metamethods", function()
      local x, w = torch.rand(3, 4, {device = "sim"}) + 0.5, torch.rand(5, 4, {device = "sim"})
      torch.autocast({device = "sim", dtype = "bfloat16"}, function()
         local y = F.linear(x, w)
         assert.equal("bfloat16", y.dtype)
         for name, z in sorted {exp = y:exp(), softmax = y:softmax(2), sum = y:sum(), pow = y ^ 2,
                               rpow = 2 ^ y, layer_norm = F.layer_norm(y, 5)} do
            assert.equal("float32", z.dtype, name)
         end
         assert.equal("bfloat16", (y + 1).dtype)
         assert.equal("float64", y:sum({dtype = "float64"}).dtype)
         assert.equal("float32", torch.addcmul(y, y, y:float()).dtype)
         assert.equal("bfloat16", torch.addcmul(y, y, y).dtype)
         assert.raises("binary_cross_entropy: not safe under autocast",
            function() F.binary_cross_entropy(y:sigmoid(), y) end)
         -- this scope is for another device, so products on the CPU are not cast
         assert.equal("float32", torch.mm(torch.ones(2, 2), torch.ones(2, 2)).dtype)
      end)
      assert.equal("float32", F.linear(x, w).dtype)
   end)

   it("do not affect float64, integers, in-place versions and out=", function()
      local a, b = torch.ones(2, 2), torch.ones(2, 2)
      autocast(function()
         assert.equal("float64", torch.mm(a:double(), b:double()).dtype)
         assert.equal("int64", torch.mm(a:long(), b:long()).dtype)
         assert.equal("float32", torch.zeros(2, 2):addmm_(a, b).dtype)
         local out = torch.zeros(2, 2)
         torch.mm(a, b, {out = out})
         assert.equal("float32", out.dtype)
      end)
   end)

   it("include functions that read values of lower precision", function()
      torch.manual_seed(2)
      local a, b = torch.randn(4, 6), torch.randn(6, 3)
      local low = torch.mm(a:bfloat16(), b:bfloat16())
      autocast(function() assert.is_true(torch.equal(low, a:mm(b))) end)
      autocast({dtype = "float16"},
         function() assert.is_true(torch.equal(a:half():mm(b:half()), torch.einsum("ij,jk->ik", {a, b}))) end)
   end)
end)

describe("a scope of autocast", function()
   local function low() return torch.mm(torch.ones(1, 1), torch.ones(1, 1)).dtype end

   it("ends with its function or its block, and passes on arguments and results", function()
      assert.same({3, "bfloat16"}, {autocast(function(a, b) return a + b, low() end, 1, 2)})
      assert.equal("float32", low())
      do
         local _ <close> = torch.autocast {device = "cpu", dtype = "float16"}
         assert.equal("float16", low())
      end
      assert.equal("float32", low())
      pcall(autocast, error, "out")
      assert.equal("float32", low())
      assert.equal("bfloat16", autocast(nn.Linear(1, 1), torch.ones(1, 1)).dtype)  -- callable
      assert.equal("bfloat16", autocast(nil, low))  -- no options
   end)

   it("is nested, and disabled inside", function()
      autocast({dtype = "float16"}, function()
         assert.equal("float16", low())
         autocast(function() assert.equal("float16", low()) end)
         autocast({enabled = false}, function()
            assert.equal("float32", low())
            assert.is_false(torch.is_autocast_enabled "cpu")
            assert.equal("float16", torch.get_autocast_dtype "cpu")
            autocast({dtype = "bfloat16"}, function() assert.equal("bfloat16", low()) end)
            assert.equal("float32", low())
         end)
         assert.equal("float16", torch.get_autocast_dtype "cpu")
         assert.is_true(torch.is_autocast_enabled())
         assert.is_false(torch.is_autocast_enabled "cuda")
      end)
      assert.is_false(torch.is_autocast_enabled())
      assert.equal("float16", torch.get_autocast_dtype "cuda")
   end)

   it("belongs to the coroutine that opens it", function()
      local inside = coroutine.wrap(function()
         local _ <close> = autocast()
         coroutine.yield(low())
         coroutine.yield(low())
      end)
      assert.equal("bfloat16", inside())
      assert.equal("float32", low())
      autocast({dtype = "float16"}, function()
         assert.equal("bfloat16", inside())
         assert.equal("float16", coroutine.wrap(low)())
      end)
   end)

   it("refuses unsupported settings, at the user's line, and changes nothing", function()
      for message, call in pairs {
         ["dtype: expected \"bfloat16\" or \"float16\", got string 'float64'"] =
            function() torch.autocast({device = "cpu", dtype = "float64"}, print) end,
         ["unknown option dtyp; did you mean 'dtype'?"] = function() torch.autocast("cpu", {dtyp = 1}, print) end,
         ["device is missing"] = function() torch.autocast(print) end,
         ["device: expected \"cpu\", \"cuda\" or \"sim\", got string 'gpu'"] =
            function() torch.autocast("gpu", print) end,
         ["enabled: expected true or false, got 1"] = function() torch.autocast("cpu", {enabled = 1}, print) end,
         ["expected a function or nothing, got 3"] = function() torch.autocast("cpu", 3) end,
      } do
         assert.raises("autocast", message, call)
      end
      assert.is_false(torch.is_autocast_enabled())
   end)

   it("has the names of torch.amp and torch.cuda.amp", function()
      assert.equal(torch.autocast, torch.amp.autocast)
      assert.is_true(torch.amp.is_autocast_available "cuda")
      assert.is_false(torch.amp.is_autocast_available "tpu")
      assert.is_true(torch.sim.amp.autocast(torch.is_autocast_enabled, "sim"))
      assert.equal("bfloat16", torch.cuda.amp.autocast({dtype = "bfloat16"},
         function() return torch.get_autocast_dtype "cuda" end))
   end)
end)

describe("gradients under autocast", function()
   local function model()
      torch.manual_seed(4)
      return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))
   end

   it("arrive in the parameters' dtype, as if these had been cast by hand", function()
      local net, x = model(), torch.randn(5, 3)
      local loss = autocast(function() return net(x):float():square():mean() end)
      loss:backward()
      local other = model()
      local function cast(layer, input)
         return F.linear(input:bfloat16(), layer.weight:bfloat16(), layer.bias:bfloat16())
      end
      cast(other[3], cast(other[1], x):tanh()):float():square():mean():backward()
      for i, p in ipairs(net:parameters()) do
         assert.equal("float32", p.grad.dtype)
         assert.is_true(torch.equal(other:parameters()[i].grad, p.grad))
      end
   end)

   -- The derivative with respect to the first argument uses the second argument. The graph saves that argument after
   -- its cast.
   local function used(w)
      local x = torch.ones(2, 2, {requires_grad = true})
      return torch.mm(x, w)
   end

   it("cast a parameter once until the outermost scope ends", function()
      local w = torch.ones(8, 8, {device = "sim", requires_grad = true})
      local x = torch.ones(1, 8, {device = "sim", dtype = "bfloat16"})
      local function blocks() return torch.sim.memory_stats()["allocation.all.allocated"] end
      local function second(options) -- returns how many blocks of memory the second call of used() allocates
         return torch.autocast("sim", options, function()
            torch.autocast("sim", F.linear, x, w)
            local before = blocks()
            F.linear(x, w)
            return blocks() - before
         end)
      end
      local kept, made = second {}, second {cache_enabled = false}
      assert.equal(made, kept + 1)
      assert.equal(kept, second {})
      torch.autocast("sim", {cache_enabled = false},
         function() assert.is_false(torch.is_autocast_cache_enabled()) end)
      assert.is_true(torch.is_autocast_cache_enabled())
      collectgarbage()
      torch.sim.synchronize()
      local held = torch.sim.memory_allocated()
      torch.autocast("sim", function()
         F.linear(x, w)
         torch.sim.synchronize()
         assert.is_true(torch.sim.memory_allocated() > held)
      end)
      collectgarbage()
      torch.sim.synchronize()
      assert.equal(held, torch.sim.memory_allocated())
   end)

   it("see a parameter that was changed inside", function()
      local w = torch.ones(2, 2, {requires_grad = true})
      autocast(function()
         assert.equal(2, used(w)[{1, 1}]:item())
         torch.no_grad(function() w:mul_(3) end)
         assert.equal(6, used(w)[{1, 1}]:item())
      end)
   end)

   it("are computed even if the parameter was cast before without recording", function()
      local w = torch.ones(2, 2, {requires_grad = true})
      autocast(function()
         torch.no_grad(function() used(w) end)
         local y = used(w)
         y:sum():backward()
         assert.equal(8, w.grad:sum():item())
         used(w):sum():backward() -- a second forward and backward pass uses the casts that the first one cached
         assert.equal(16, w.grad:sum():item())
      end)
   end)

   it("are unaffected by a cast in inference mode", function()
      local w = torch.ones(2, 2, {requires_grad = true})
      autocast(function()
         torch.inference_mode(function() return torch.mm(torch.ones(2, 2), w) end)
         used(w):sum():backward()
      end)
      assert.equal(8, w.grad:sum():item())
   end)

   it("are the same with a checkpoint, which casts again as before", function()
      local x = torch.randn(5, 3)
      local function gradients(call)
         local net = model()
         autocast(function() return call(net, x):float():square():mean() end):backward()
         return net:parameters()
      end
      local plain = gradients(function(net, input) return net(input) end)
      local again = gradients(torch.utils.checkpoint)
      for i, p in ipairs(plain) do assert.is_true(torch.equal(p.grad, again[i].grad)) end
   end)

   it("hold for the plain modules of a training step", function()
      local net, x, y = model(), torch.randn(16, 3), torch.randint(1, 3, {16})
      local adam = torch.optim.Adam(net:parameters(), {lr = 0.05})
      local first, last
      for _ = 1, 60 do
         adam:zero_grad()
         local loss = autocast(function() return F.cross_entropy(net(x), y) end)
         assert.equal("float32", loss.dtype)
         loss:backward()
         adam:step()
         first, last = first or loss:item(), loss:item()
      end
      assert.is_true(last < 0.3 * first)
   end)
end)

describe("a Function under autocast", function()
   local class = torch.class

   local function doubling(name, fields)
      local D = class(name, torch.autograd.Function)
      for key, value in pairs(fields or {}) do D[key] = value end
      D.forward = D.forward or function(ctx, x)
         D.seen = {x.dtype, torch.is_autocast_enabled "cpu"}
         ctx:save_for_backward(x)
         return x:mm(x)
      end
      function D.backward(ctx, grad)
         local x = ctx:saved_tensors()
         D.back = {x.dtype, torch.is_autocast_enabled "cpu"}
         return grad:to(x.dtype):mm(x:t()) + x:t():mm(grad:to(x.dtype))
      end
      return D
   end

   it("runs forward and backward with autocast", function()
      local D = doubling "Plain"
      local x = torch.ones(2, 2, {requires_grad = true})
      local y = autocast(function() return D:apply(x) end)
      assert.same({"float32", true}, D.seen)
      assert.equal("bfloat16", y.dtype)
      y:sum():backward()
      assert.same({"float32", true}, D.back)
      assert.is_false(torch.is_autocast_enabled())
   end)

   it("with cast_inputs receives cast tensors and runs with autocast off", function()
      local D = doubling("Wide", {cast_inputs = "float32"})
      local x = torch.ones(2, 2, {requires_grad = true})
      local half = x:bfloat16()
      local y = autocast(function() return D:apply(half) end)
      assert.same({"float32", false}, D.seen)
      assert.equal("float32", y.dtype)
      y:sum():backward()
      assert.same({"float32", false}, D.back)
      assert.equal("float32", x.grad.dtype)
      assert.equal(16, x.grad:sum():item())
      D:apply(half) -- the Function is called outside of autocast, so none of its arguments is cast
      assert.same({"bfloat16", false}, D.seen)
   end)

   it("can use PyTorch's custom_fwd and custom_bwd", function()
      local D = doubling "Custom"
      D.forward = torch.amp.custom_fwd(D.forward, {device_type = "cpu", cast_inputs = "float16"})
      D.backward = torch.amp.custom_bwd(D.backward, {device_type = "cpu"})
      local x = torch.ones(2, 2, {requires_grad = true})
      local y = autocast(function() return D:apply(x) end)
      assert.same({"float16", false}, D.seen)
      y:sum():backward()
      assert.same({"float16", false}, D.back)
      assert.raises("amp.custom_fwd: unknown option cast_input; did you mean cast_inputs?",
         function() torch.amp.custom_fwd(print, {cast_input = 1}) end)
   end)
end)
