-- Tests torch.library.Library, define, impl and opcheck, which declare operators by schemas. The expected values and
-- verdicts are PyTorch's for the same calls.

local torch = require "tlua"
local library = torch.library
local cpu = {device = "cpu"} -- makes the tests independent of the specs' default device

local count = 0
-- Returns a name for a namespace that no other test uses.
local function namespace()
   count = count + 1
   return "spec_library" .. count
end

describe("torch.library.Library", function()
   it("defines operators, and implements them for kinds of devices", function()
      local ns = namespace()
      local lib = library.Library(ns, "DEF")
      assert.equal("scale", lib:define "scale(Tensor x, float by=2) -> Tensor")
      local op = torch.ops[ns].scale
      assert.raises(ns .. "::scale: no kernel for cpu; there is none", function() op(torch.ones(1, cpu)) end)
      lib:impl("scale", function(x, by) return x * by end, "CPU")
      assert.same({2, 2}, op(torch.ones(2, cpu)):tolist())
      assert.same({3, 3}, op(torch.ones(2, cpu), 3):tolist())
      assert.same({4, 4}, op(torch.ones(2, cpu), {by = 4}):tolist())
      lib:impl(ns .. "::scale", function(x) return torch.empty_like(x) end, "Meta")
      assert.same({2}, op(torch.ones(2, {device = "meta"})).shape)
   end)

   it("changes arguments that the schema says it changes", function()
      local ns = namespace()
      local lib = library.Library(ns, "FRAGMENT")
      lib:define "inc(Tensor(a!) x, int n) -> ()"
      lib:impl("inc", function(x, n) x:add_(n) end, "CompositeExplicitAutograd")
      local x = torch.zeros(1, cpu)
      torch.ops[ns].inc(x, 3)
      assert.equal(3, x:item())
      lib:define "quiet(Tensor x) -> ()"
      lib:impl("quiet", function(y) y:add_(1) end, "CPU")
      assert.raises("argument 1 was changed in place", function() torch.ops[ns].quiet(x) end)
   end)

   it("differentiates the operators of a composite function", function()
      local ns = namespace()
      local lib = library.Library(ns, "FRAGMENT")
      lib:define "square(Tensor x) -> Tensor"
      lib:impl("square", function(x) return x * x end, "CompositeImplicitAutograd")
      local x = torch.tensor({3.0}, {requires_grad = true})
      torch.ops[ns].square(x):backward()
      assert.close({6}, x.grad)
   end)

   it("refuses a second definition, and an operator that does not exist", function()
      local ns = namespace()
      local lib = library.Library(ns, "DEF")
      lib:define "a(Tensor x) -> Tensor"
      assert.raises("library.define: " .. ns .. "::a is defined already",
         function() lib:define "a(Tensor x) -> Tensor" end)
      assert.raises("the namespace", "is defined already", function() library.Library(ns, "DEF") end)
      assert.raises("no operator " .. ns .. "::b", function() lib:impl("b", print, "CPU") end)
      assert.raises("types: expected one of CPU", "XPU", function() lib:impl("a", print, "XPU") end)
      assert.raises("register_autograd", function() lib:impl("a", print, "AutogradCPU") end)
      assert.raises('kind "IMPL" only implements',
         function() library.Library(ns, "IMPL"):define "c(Tensor x) -> Tensor" end)
      assert.raises("library.Library: kind", "DEFF", function() library.Library(ns, "DEFF") end)
   end)
end)

describe("schemas", function()
   local function op(schema, fn)
      local name = namespace() .. "::f"
      local made = library.define(name, schema)
      library.impl(name, "default", fn or function(...) return ... end)
      return made
   end

   it("check arguments by type, and fill in defaults", function()
      local seen
      local f = op("(Tensor x, int n, float[]? w=None, *, bool flip=False, str mode='a', int[2] s=[1, 2])"
         .. " -> Tensor", function(x, ...)
         seen = table.pack(...)
         return x + 0
      end)
      f(torch.ones(1), 4)
      assert.equal(4, seen[1])
      assert.is_nil(seen[2])
      assert.is_false(seen[3])
      assert.equal("a", seen[4])
      assert.same({1, 2}, seen[5])
      f(torch.ones(1), 4, {0.5, 1}, {flip = true, mode = "b"})
      assert.same({0.5, 1}, seen[2])
      assert.is_true(seen[3])
      assert.equal("b", seen[4])
      assert.raises("::f: x: expected a tensor, got", "a", function() f("a", 1) end)
      assert.raises("::f: n: expected an integer, got 1.5", function() f(torch.ones(1), 1.5) end)
      assert.raises("::f: n is missing; expected an integer", function() f(torch.ones(1)) end)
      assert.raises("::f: unknown argument mod; did you mean mode", function() f(torch.ones(1), 1, {mod = "a"}) end)
      assert.raises("::f: n is given by position and by name", function() f(torch.ones(1), 1, {n = 1}) end)
      assert.raises("::f: expected at most 3 arguments, got 4", function() f(torch.ones(1), 1, {0.5}, true) end)
   end)

   it("raise errors if they cannot be parsed", function()
      assert.raises("library.define: schema", "expected",
         function() library.define("spec_library::bad", "Tensor x") end)
      assert.raises("unknown type Tenor; did you mean Tensor",
         function() library.define("spec_library::bad", "(Tenor x) -> Tensor") end)
      assert.raises("x: cannot read the default oops",
         function() library.define("spec_library::bad", "(int x=oops) -> Tensor") end)
   end)

   it("give the number of results", function()
      local f = op("(Tensor x) -> (Tensor, Tensor)", function(x) return x + 1 end)
      assert.raises("expected 2 results from the kernel, got 1", function() f(torch.ones(1)) end)
   end)

   it("leave derivatives to register_autograd", function()
      local f = op("(Tensor x, float by=2) -> Tensor", function(x, by) return x * by end)
      f:register_autograd(function(ctx, grad) return grad * ctx.by, nil end, {
         setup_context = function(ctx, inputs) ctx.by = inputs[2] end,
      })
      local x = torch.ones(2, {requires_grad = true})
      f(x):sum():backward()
      assert.close({2, 2}, x.grad)
   end)
end)

describe("opcheck", function()
   local function custom(fn, fake)
      local made = library.custom_op(namespace() .. "::f", fn)
      return fake and made:register_fake(fake) or made
   end
   local like = torch.empty_like

   it("accepts an operator that is registered correctly", function()
      local op = custom(function(x, by) return x * by end, function(x) return like(x) end)
      op:register_autograd(function(ctx, grad) return grad * ctx.by, nil end, {
         setup_context = function(ctx, inputs) ctx.by = inputs[2] end,
      })
      local x = torch.randn(3, {requires_grad = true})
      assert.same({
         test_schema = "SUCCESS", test_autograd_registration = "SUCCESS", test_faketensor = "SUCCESS",
      }, library.opcheck(op, {x, 2.0}))
   end)

   it("detects a changed argument, without changing the caller's", function()
      local op = custom(function(x)
         x:add_(1)
         return x:clone()
      end, like)
      local x = torch.zeros(3)
      assert.raises("library.opcheck", "test_schema", "changed in place", function() library.opcheck(op, {x}) end)
      assert.same({0, 0, 0}, x:tolist())
   end)

   it("detects a result that is a view of an argument", function()
      local op = custom(function(x) return x:view(3, 1) end)
      local found = library.opcheck(op, {torch.ones(3)}, {raise_exception = false, test_utils = "test_schema"})
      assert.matches("result 1 shares memory with argument 1", found.test_schema)
   end)

   it("detects a fake kernel with another shape or dtype", function()
      local wide = custom(function(x) return x * 2 end, function(x) return x:new_empty {7} end)
      assert.raises("test_faketensor", "size (3)", "(7)", function() library.opcheck(wide, {torch.ones(3)}) end)
      local long = custom(function(x) return x * 2 end, function(x) return x:to "float64" end)
      assert.raises("test_faketensor", "float32", "float64", function() library.opcheck(long, {torch.ones(3)}) end)
   end)

   it("detects a missing derivative", function()
      local op = custom(function(x) return x * 2 end, like)
      assert.raises("test_autograd_registration", "register_autograd",
         function() library.opcheck(op, {torch.ones(1, {requires_grad = true})}) end)
   end)

   it("accepts only an operator's name", function()
      local op = custom(function(x) return x * 2 end, like)
      assert.equal("SUCCESS", library.opcheck(op.name, {torch.ones(1)}).test_schema)
      assert.raises("library.opcheck: no operator spec_library::none",
         function() library.opcheck("spec_library::none", {torch.ones(1)}) end)
      assert.raises("library.opcheck: name", function() library.opcheck({}, {torch.ones(1)}) end)
   end)

   it("names the available tests in an error", function()
      assert.raises("no test test_aot_dispatch_dynamic", "test_schema", function()
         library.opcheck(custom(function(x) return x * 2 end), {torch.ones(1)},
            {test_utils = "test_aot_dispatch_dynamic"})
      end)
   end)
end)
