-- Finalizers run wherever Lua allocates, also in the midst of a call of the library: what they
-- release, or change, must not be what the call is reading.

local torch = require "tlua"

-- Calls fn(x) again and again, while finalizers call `disturb` with the tensor that fn works on.
local function under_fire(make, fn, disturb)
   local current
   local stop = false
   local function arm()
      setmetatable({}, {__gc = function()
         if stop then return end
         if current then disturb(current) end
         arm()
      end})
   end
   local mode = collectgarbage("incremental", 1, 10000, 0) -- a cycle at almost each allocation
   arm()
   for _ = 1, 60 do
      current = make()
      local ok, message = pcall(fn, current)
      assert(ok or type(message) == "string" and message:find("_spec.lua:%d"), message)
   end
   stop = true
   collectgarbage("incremental", 200, 100, 13)
   collectgarbage(mode)
end

local function matrix() return torch.ones(7, 9) end
local function list() return torch.ones(40):requires_grad_() end

local Twice = torch.class("Twice", torch.autograd.Function)
function Twice.forward(_, x) return x end
function Twice.backward(_, grad) return grad end

local long = {}
for i = 1, 60 do long[i] = torch.ones(9) end

local uses = {
   ["tolist"] = function(x) return x:tolist() end,
   ["tostring"] = tostring,
   ["unary minus"] = function(x) return -x end,
   ["arithmetic"] = function(x) return x + x * 2 end,
   ["shape"] = function(x) return #x.shape + #x:size() + #x:stride() end,
   ["rows"] = function(x) for row in x:iter() do row:sum() end end,
   ["indexing"] = function(x) return x[{1}] + x[torch.tensor {1, 2}]:sum() end,
   ["assigning"] = function(x) x[1] = torch.ones(1) end,
   ["transposing"] = function(x) return x.T, x.mT end,
   ["a list of many tensors"] = function(x) return torch.stack(long):sum() + x end,
   ["conversions"] = function(x) return torch.as_tensor(x), torch.tensor(x), x:new_tensor(1) end,
   ["several results"] = function(x) return x:max(1), x:split(2), x:unbind() end,
   ["apply_"] = function(x) return x:clone():apply_(function(v) return v + 1 end) end,
   ["map_"] = function(x) return x:clone():map_(x, function(a, b) return a + b end) end,
   ["errors"] = function(x) pcall(torch.matmul, x, torch.ones(100)) end,
}

local graphs = {
   ["backward"] = function(x) (x * 2):sum():backward() end,
   ["grad"] = function(x)
      local y = (x * x):sum()
      return torch.autograd.grad({y, y * 2}, {x, x}, {retain_graph = true})
   end,
   ["hooks"] = function(x)
      x:register_hook(function(g) return g * 2 end);
      (x * 2):sum():backward()
   end,
   ["grad_fn"] = function(x) return (x * 2).grad_fn.next_functions, x.grad, x.grad_fn end,
   ["functions"] = function(x) return Twice:apply(x):sum():backward() end,
   ["tostring"] = function(x) return tostring(x * 2) end,
}

local disturbances = {
   ["is released"] = function(x) x:release() end,
   ["gets other data"] = function(x) pcall(function() x.data = torch.ones(1) end) end,
}

for what, disturb in pairs(disturbances) do
   describe("a tensor that " .. what .. " in a finalizer", function()
      for name, fn in pairs(uses) do
         it("during " .. name, function() under_fire(matrix, fn, disturb) end)
      end
      for name, fn in pairs(graphs) do
         it("of a graph during " .. name, function() under_fire(list, fn, disturb) end)
      end
   end)
end

describe("a collection for lack of memory", function()
   it("leaves what the operator is reading", function()
      local x = torch.ones(1000)
      setmetatable({}, {__gc = function() x:release() end})
      torch.set_memory_limit(torch.memory_stats().used + 100000)
      local ok, message = pcall(function() return x:expand(1000, 1000):exp() end)
      torch.set_memory_limit(0)
      assert.is_false(ok)
      assert.matches("out of memory", message)
      collectgarbage()
      collectgarbage()
      assert.equal("tensor(released)", tostring(x))
   end)
end)
