-- Implements reverse-mode differentiation of scalar functions in plain Lua, and compares the
-- results with torch's:
--
--    tlua examples/ported/micrograd.lua
local torch = require "tlua"

local Value = torch.class "Value"

function Value:__init(data, children, backward)
   self.data, self.grad = data, 0
   self.children, self.pass = children or {}, backward or function() end
end

local function value(x) return type(x) == "number" and Value(x) or x end

function Value.__add(a, b)
   a, b = value(a), value(b)
   local out
   out = Value(a.data + b.data, {a, b}, function()
      a.grad = a.grad + out.grad
      b.grad = b.grad + out.grad -- accumulates, since a and b may be the same Value
   end)
   return out
end

function Value.__mul(a, b)
   a, b = value(a), value(b)
   local out
   out = Value(a.data * b.data, {a, b}, function()
      a.grad = a.grad + b.data * out.grad
      b.grad = b.grad + a.data * out.grad
   end)
   return out
end

function Value.__pow(a, exponent)
   local out
   out = Value(a.data ^ exponent, {a}, function()
      a.grad = a.grad + exponent * a.data ^ (exponent - 1) * out.grad
   end)
   return out
end

function Value:relu()
   local out
   out = Value(math.max(0, self.data), {self}, function()
      if out.data > 0 then self.grad = self.grad + out.grad end
   end)
   return out
end

function Value.__unm(a) return a * -1 end
function Value.__sub(a, b) return a + -value(b) end
function Value.__div(a, b) return a * value(b) ^ -1 end

function Value:backward()
   local order, seen = {}, {}
   local function visit(v)
      if seen[v] then return end
      seen[v] = true
      for _, child in ipairs(v.children) do visit(child) end
      order[#order + 1] = v
   end
   visit(self)
   self.grad = 1
   for i = #order, 1, -1 do order[i].pass() end
end

-- Computes a formula of two Values, or of two tensors, whose operators have the same meaning.
local function formula(a, b)
   local c = a + b
   local d = a * b + b ^ 3
   c = c + c + 1
   c = c + 1 + c + -a
   d = d + d * 2 + (b + a):relu()
   d = d + 3 * d + (b - a):relu()
   local e = c - d
   local f = e ^ 2
   return f / 2.0 + 10.0 / f
end

local a, b = Value(-4.0), Value(2.0)
local g = formula(a, b)
g:backward()

local options = {dtype = torch.float64, requires_grad = true}
local ta, tb = torch.tensor(-4.0, options), torch.tensor(2.0, options)
local tg = formula(ta, tb)
tg:backward()

print(("g = %.4f, dg/da = %.4f, dg/db = %.4f"):format(g.data, a.grad, b.grad))
assert(math.abs(g.data - tg:item()) < 1e-9)
assert(math.abs(a.grad - ta.grad:item()) < 1e-9 and math.abs(b.grad - tb.grad:item()) < 1e-9)
print "torch agrees"
