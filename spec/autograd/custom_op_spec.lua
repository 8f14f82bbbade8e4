-- Tests torch.library: operators written in Lua.
local torch = require "tlua"
local library = torch.library

local function scale_op(name)
   local op = library.custom_op(name, {mutates_args = {}}, function(x, by) return x * by end)
   op:register_autograd(function(ctx, grad)
      local x = ctx:saved_tensors()
      ctx.x = x
      return grad * ctx.by, nil
   end, {
      setup_context = function(ctx, inputs)
         ctx.by = inputs[2]
         ctx:save_for_backward(inputs[1])
      end,
   })
   return op
end

describe("torch.library.custom_op", function()
   it("makes an operator that torch.ops finds by its name", function()
      local op = scale_op "spec_names::scale"
      assert.equal(op, torch.ops.spec_names.scale)
      assert.equal(op, torch.ops.spec_names.scale.default)
      assert.same({2, 4}, torch.ops.spec_names.scale(torch.tensor {1, 2}, 2):tolist())
      assert.equal("<custom operator spec_names::scale>", tostring(op))
   end)

   it("takes the function last, first, or as a decorator", function()
      local function double(x) return x * 2 end
      local x = torch.tensor {1, 2}
      for _, op in ipairs {
         library.custom_op("spec_forms::a", double), library.custom_op("spec_forms::b", {}, double),
         library.custom_op("spec_forms::c", double, {mutates_args = {}}),
         library.custom_op("spec_forms::d", {mutates_args = {}})(double),
      } do
         assert.same({2, 4}, op(x):tolist())
      end
   end)

   it("has the derivative that was registered", function()
      local op = scale_op "spec_grad::scale"
      local x = torch.tensor({1, 2}, {dtype = "float32", requires_grad = true})
      local y = op(x, 3)
      assert.equal("<spec_grad::scaleBackward>", tostring(y.grad_fn))
      y:sum():backward()
      assert.same({3, 3}, x.grad:tolist())
      assert.is_true(torch.autograd.gradcheck(function(t) return op(t, 2.5) end,
         {torch.randn(3, {dtype = "float64", requires_grad = true})}))
   end)

   it("passes setup_context the list of several results", function()
      local seen
      local op = library.custom_op("spec_grad::two", function(x) return x + 1, x * 2 end)
      op:register_autograd(function(_, a, b) return a + 2 * b end,
         {setup_context = function(_, _, output) seen = output end})
      local x = torch.ones(2, {requires_grad = true})
      local a, b = op(x)
      assert.close(torch.tensor {2.0, 2.0}, seen[1], 0)
      assert.equal(2, seen.n);
      (a + b):sum():backward()
      assert.same({3, 3}, x.grad:tolist())
   end)

   it("raises an error in the backward pass if no derivative is registered", function()
      local op = library.custom_op("spec_grad::none", function(x) return x * 2 end)
      local y = op(torch.ones(2, {requires_grad = true}))
      assert.is_true(y.requires_grad)
      assert.raises("spec_grad::none", "register_autograd", function() y:sum():backward() end)
   end)

   it("refuses a kernel that returns an argument, or changes one without saying so", function()
      local same = library.custom_op("spec_alias::same", function(x) return x end)
      assert.raises("spec_alias::same", "result 1 is argument 1", function() same(torch.ones(2)) end)
      local quiet = library.custom_op("spec_alias::quiet", function(x) x:add_(1) end)
      assert.raises("spec_alias::quiet", "argument 1 was changed in place", function() quiet(torch.ones(2)) end)
   end)

   it("changes the arguments that mutates_args names", function()
      local op = library.custom_op("spec_alias::bump", {mutates_args = {"y"}}, function(x, y) y:add_(x) end)
      local y = torch.zeros(2)
      op(torch.ones(2), y)
      assert.same({1, 1}, y:tolist())
      assert.raises("spec_alias::bump", "changes its arguments in place", function()
         op:register_autograd(function() end)
      end)
      assert.raises("spec_alias::wrong", "names of parameters (x), got \"z\"", function()
         library.custom_op("spec_alias::wrong", {mutates_args = {"z"}}, function(x) x:add_(1) end)
      end)
   end)

   it("chooses the kernel by the arguments' device", function()
      local op = library.custom_op("spec_device::where", {device_types = "sim"}, function(x) return x * 0 end)
      assert.raises("spec_device::where", "no kernel for cpu; there are some for sim",
         function() op(torch.ones(2, {device = "cpu"})) end)
      op:register_kernel({"cpu", "cuda"}, function(x) return x * 5 end)
      assert.same({5, 5}, op(torch.ones(2, {device = "cpu"})):tolist())
   end)

   it("is called once by vmap if it has a rule, otherwise for each example", function()
      local calls = 0
      local op = library.custom_op("spec_vmap::row", function(x)
         calls = calls + 1
         return x:cumsum(x:dim())
      end)
      local x = torch.arange(6.0):reshape(3, 2)
      local function map() return torch.vmap(function(row) return op(row) end)(x) end
      assert.close(x:cumsum(2), map(), 0)
      assert.equal(3, calls)
      op:register_vmap(function(info, in_dims, batch)
         assert.equal(3, info.batch_size)
         return op(batch:movedim(in_dims[1], 1)), 1
      end)
      calls = 0
      assert.close(x:cumsum(2), map(), 0)
      assert.equal(1, calls)
      local transposed = torch.vmap(function(row) return op(row) end, {in_dims = 2})(x)
      assert.close(x:t():cumsum(2), transposed, 0)
   end)

   it("runs in the dtype that register_autocast names", function()
      local seen
      local op = library.custom_op("spec_autocast::look", function(x)
         seen = x.dtype
         return x * 1
      end)
      op:register_autocast("cpu", "bfloat16")
      local x = torch.ones(2, {device = "cpu"})
      op(x)
      assert.equal("float32", seen)
      torch.autocast({device_type = "cpu"}, function() op(x) end)
      assert.equal("bfloat16", seen)
   end)

   it("appears by its name in a profile", function()
      local op = scale_op "spec_profile::scale"
      local prof = torch.profiler.profile({}, function() op(torch.ones(2), 2) end)
      local found
      for _, event in prof:events() do found = found or event.name == "spec_profile::scale" end
      assert.is_true(found)
   end)

   it("refuses tensors within tables that would lose their gradients", function()
      local op = library.custom_op("spec_list::first", function(list) return list[1] * 2 end)
      local x = torch.ones(1, {requires_grad = true})
      assert.raises("spec_list::first: argument 1: item 1: expected a tensor that requires no "
         .. "gradient", function() op {x} end)
      assert.equal(2, op({x:detach()}):item())
      assert.equal(2, torch.no_grad(op, {x}):item())
   end)

   it("names the argument that does not fit", function()
      assert.raises("custom_op", 'such as "mylib::scale"', function() library.custom_op("scale", print) end)
      assert.raises("custom_op", "unknown option mutate_args",
         function() library.custom_op("spec::x", {mutate_args = {}}, print) end)
      scale_op "spec_near::scale"
      assert.raises("torch.ops.spec_near", "did you mean scale", function() return torch.ops.spec_near.scala end)
      assert.raises("torch.ops", "no namespace", function() return torch.ops.nowhere end)
      assert.raises("register_fake", "no operator spec_near::scal; did you mean spec_near::scale",
         function() library.register_fake("spec_near::scal", print) end)
   end)
end)
