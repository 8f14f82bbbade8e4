-- wrapped.lua - kinds of tensors that are values of Lua over dense tensors, such as masked ones.
-- (lua/tlua/sparse has its own file for the same purpose.)
--
-- A wrapped tensor is a userdata with a table of components, its parts. One of them, the main
-- tensor, has the elements, and gradients flow through it. An operator that refuses a wrapped
-- argument calls the kind's handler with its name (src/lua/args/sparse.c); the handler calls the
-- function that the kind has defined for the operator. If there is none, the handler raises an
-- error that names the operator. So a function never reads the main tensor as if it were the whole
-- value.

local torch = require "tlua"
local args = require "tlua.args"
local shells = require "tlua.autograd.shells"

local M = {}

local arithmetic <const> = {
   add = "add", sub = "sub", mul = "mul", div = "div", mod = "remainder", pow = "pow",
   idiv = "floor_divide", band = "bitwise_and", bor = "bitwise_or", bxor = "bitwise_xor",
}

-- Fields of tensors that all kinds have. Each function returns the field's value for a kind and a
-- tensor's parts.
local fields <const> = {
   data = function(kind, p) return kind.like(p, p[kind.main]:detach()) end,
   grad = function(kind, p)
      local grad = p[kind.main].grad
      return grad and kind.like(p, grad)
   end,
}
for name in ([[dtype device requires_grad is_leaf grad_fn is_cuda is_cpu is_meta itemsize
   is_sim]]):gmatch "%S+" do
   fields[name] = function(kind, p) return p[kind.main][name] end
end

--- Makes a kind of wrapped tensors. The caller adds the functions same, moved, length and text.
---@param kind {title: string, plural: string, hint: string, main: string, rest?: string} the names
--- of one tensor and of several tensors in messages, advice for getting a dense tensor, the main
--- tensor's key, and the name of the other parts in messages, "sequences" by default
---@return table kind  with the tables operators, methods and properties, and the functions below
function M.kind(kind)
   local operators, methods, properties, meta = {}, {}, {},
      {__name = "Tensor", title = kind.title}
   kind.operators, kind.methods, kind.properties = operators, methods, properties
   for name, of in pairs(fields) do
      properties[name] = function(p) return of(kind, p) end
   end
   function properties.is_sparse() return false end
   function properties.is_sparse_csr() return false end
   function properties.is_quantized() return false end
   function properties.is_nested() return false end
   function properties.is_parameter(p) return p.parameter or false end

   -- Returns the components of a tensor of this kind; nil for any other value.
   function kind.parts(value) return torch._wrapped_parts(value, meta) end

   -- Returns a tensor with the given components, which are not checked.
   function kind.new(parts) return torch._wrapped_new(parts, meta) end

   -- Returns a tensor with the components p, except that its main tensor is `main`.
   function kind.like(p, main)
      local copy = {}
      for key, value in pairs(p) do copy[key] = value end
      copy[kind.main] = main
      return kind.new(copy)
   end

   -- Returns the shell of a tensor: a table of functions that return the main tensor of a tensor,
   -- and that make a tensor with a new main tensor (lua/tlua/autograd/shells.lua).
   function meta.shell(x)
      local rest = {}
      for key, value in pairs(kind.parts(x)) do rest[key] = value end
      rest[kind.main] = nil
      return {
         title = ("%s with the same %s"):format(kind.title, kind.rest or "sequences"),
         wrap = function(main) return kind.like(rest, main) end,
         main = function(value)
            local p = kind.parts(value)
            return p and (kind.fits or kind.same)(rest, p) and p[kind.main] or nil
         end,
      }
   end

   -- Raises an error that says that this kind of tensor lacks the operator `who`.
   function kind.unsupported(who)
      torch.raise(("%s: is not defined for %s; %s"):format(who, kind.plural, kind.hint))
   end

   -- Defines an operator under one or several names, which are methods too unless `method` is
   -- false.
   function kind.define(names, fn, method)
      for name in names:gmatch "%S+" do
         operators[name] = args.named(name, fn, kind.title)
         if method ~= false then methods[name] = operators[name] end
      end
   end

   -- Calls the operator `name`, which has a tensor of this kind among its arguments.
   function kind.call(name, ...)
      local last = select(-1, ...)
      if type(last) == "table" and rawget(last, "out") ~= nil then
         torch.raise(("%s: out: %s neither give nor take results in this way"):format(name,
            kind.plural))
      end
      local fn = operators[name] or operators[name:gsub("^nn%.functional%.", "")]
      if not fn then kind.unsupported(name) end
      return fn(...)
   end

   local function names()
      local list = {}
      for _, from in ipairs {methods, properties} do
         for name in pairs(from) do list[#list + 1] = name end
      end
      return list
   end

   function meta.__index(x, key)
      local method = methods[key]
      if method then return method end
      local property = properties[key]
      if property then return property(kind.parts(x)) end
      if type(key) ~= "string" and operators.__index then return operators.__index(x, key) end
      if type(key) == "string" and rawget(torch.Tensor, key) then kind.unsupported(key) end
      local hint = type(key) == "string" and require "tlua.utils.suggest".hint(key, names()) or ""
      torch.raise(("%s: there is no %s%s"):format(kind.title, args.describe(key), hint))
   end

   function meta.__newindex(x, key, value)
      if type(key) ~= "string" and operators.__newindex then
         return operators.__newindex(x, key, value)
      end
      local p = kind.parts(x)
      local main = p[kind.main]
      if key == "requires_grad" then
         main.requires_grad = value
      elseif key == "is_parameter" and kind.is_trainable then
         p.parameter = value or nil
      elseif key == "data" and kind.is_trainable then
         local q = kind.parts(value)
         if not (q and kind.same(p, q)) then
            args.refuse("data", "value", ("a %s of the same shape"):format(kind.title), value)
         end
         main.data = q[kind.main]
      elseif key == "grad" then
         local q = value ~= nil and kind.parts(value)
         if value ~= nil and not (q and kind.same(p, q)) then
            args.refuse("grad", "value", ("nil or a %s of the same shape"):format(kind.title),
               value)
         end
         main.grad = q and q[kind.main] or nil
      else
         torch.raise(("%s: cannot assign to %s"):format(kind.title, args.describe(key)))
      end
   end

   for metamethod, operator in pairs(arithmetic) do
      meta["__" .. metamethod] = function(a, b) return kind.call(operator, a, b) end
   end
   function meta.__unm(a) return kind.call("neg", a) end
   function meta.__bnot(a) return kind.call("bitwise_not", a) end
   function meta.__tostring(x) return kind.text(kind.parts(x)) end
   function meta.__len(x) return kind.length(kind.parts(x)) end

   for name in ("is_floating_point is_complex element_size is_signed get_device"):gmatch "%S+" do
      kind.define(name, function(x)
         local main = kind.parts(x)[kind.main]
         return main[name](main)
      end)
   end
   kind.define("requires_grad_", function(x, on)
      kind.parts(x)[kind.main]:requires_grad_(on == nil or on)
      return x
   end)
   kind.define("retain_grad", function(x) kind.parts(x)[kind.main]:retain_grad() end)
   kind.define("register_hook", function(x, hook)
      local p = kind.parts(x)
      if type(hook) ~= "function" then
         args.refuse("register_hook", "hook", "a function", hook)
      end
      return p[kind.main]:register_hook(function(grad)
         local q = hook(kind.like(p, grad))
         q = q ~= nil and kind.parts(q) or nil
         return q and q[kind.main] or nil
      end)
   end)
   for name in ([[detach clone contiguous to type_as float double half bfloat16 int long bool cpu
      cuda sim pin_memory is_pinned type]]):gmatch "%S+" do
      kind.define(name, function(x, ...)
         local p, q = kind.parts(x), kind.parts((...))
         if not p then kind.unsupported(name) end
         local convert, main = p[kind.main][name], p[kind.main]
         if q then
            main = convert(main, q[kind.main], select(2, ...))
         else
            main = convert(main, ...)
         end
         return torch.is_tensor(main) and kind.moved(p, main) or main
      end)
   end

   operators["autograd.grad"] = shells.grad
   methods.backward = shells.backward

   torch._wrapped_open(meta, kind.call)
   return kind
end

--- Names of elementwise functions of one tensor, which every kind applies to its main tensor.
M.unary = [[abs absolute neg negative positive sign sgn ceil floor round trunc fix frac sqrt rsqrt
   square reciprocal exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan arcsin arccos
   arctan sinh cosh tanh asinh acosh atanh arcsinh arccosh arctanh sinc erf erfc erfinv lgamma
   digamma i0 sigmoid logit clamp clip clamp_min clamp_max nan_to_num isnan isinf isfinite isposinf
   isneginf signbit deg2rad rad2deg logical_not bitwise_not relu relu6 leaky_relu elu selu celu gelu
   silu mish softplus softsign tanhshrink softshrink hardshrink hardtanh hardsigmoid hardswish
   logsigmoid threshold dropout alpha_dropout]]
--- Names of elementwise functions of two tensors.
M.binary = [[add sub subtract mul multiply div divide true_divide floor_divide remainder fmod pow
   float_power atan2 arctan2 maximum minimum fmax fmin hypot copysign xlogy logaddexp logaddexp2
   eq ne lt le gt ge less less_equal greater greater_equal not_equal logical_and logical_or
   logical_xor bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift nextafter
   heaviside rsub]]

--- Operators of Lua, which take a number as the first operand.
M.of_number = {
   add = function(a, b) return a + b end, sub = function(a, b) return a - b end,
   mul = function(a, b) return a * b end, div = function(a, b) return a / b end,
   pow = function(a, b) return a ^ b end, remainder = function(a, b) return a % b end,
   floor_divide = function(a, b) return a // b end,
}

--- Returns torch's function of that name, or nn.functional's; nil if this build has none.
---@param name string
---@return function?
function M.of(name)
   return rawget(torch, name) or rawget(torch.nn.functional, name)
end

return M
