-- vander.lua - torch.vander, the older form of torch.linalg.vander: makes a matrix of powers.

local torch = require "tlua"
local args = require "tlua.args"

local take = args.signature "vander(x: tensor, N: count?, increasing: boolean = false)"

--- Returns the Vandermonde matrix of a vector x: column j is x to the power N - j or, if
--- `increasing` is true, to the power j - 1.
---@param x Tensor  (n)
---@param N? integer  the number of columns, n by default
---@param increasing? boolean
---@return Tensor  (n, N); of int64 for integers
return function(...)
   local a = take(...)
   if a.x:dim() ~= 1 then args.refuse("vander", "x", "a vector", a.x) end
   local n = a.N or a.x:numel()
   local x = a.x
   if not x:is_floating_point() then x = x:to "int64" end
   if n == 0 then return torch.empty({x:numel(), 0}, {dtype = x.dtype, device = x.device}) end
   local powers = torch.linalg.vander(x, {N = n})
   return a.increasing and powers or powers:flip(2)
end
