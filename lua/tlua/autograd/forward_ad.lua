-- forward_ad.lua - torch.autograd.forward_ad: dual tensors, which carry a tangent through a
-- computation.
--
--    local fwd = torch.autograd.forward_ad
--    do
--       local _ <close> = fwd.dual_level()
--       local y = f(fwd.make_dual(x, v))
--       local value, tangent = fwd.unpack_dual(y) -- f(x), J v
--    end
--
-- This module uses reverse mode, like torch.func.jvp: operations on a dual are recorded, and
-- unpack_dual computes the derivative of v^T J with respect to v. Operations on duals are recorded
-- even under no_grad. unpack_dual follows the nodes recorded under no_grad, but backward passes do
-- not: as in PyTorch, no_grad stops gradients and lets tangents through.

local torch = require "tlua"
local args = require "tlua.args"
local scopes = require "tlua.scope"
local pushforward = require "tlua.autograd.pushforward"
local recording = require "tlua.autograd.recording"

local M = {}

local level -- the open level, {duals = list, tangents = list}; nil if no level is open

--- Opens the level in which tensors can be duals. With fn, the level is open while fn runs, and
--- fn's results are returned; without fn, it is open until the end of a block with `local _ <close>
--- = dual_level()`. Levels do not nest.
---@param fn? function
---@param ... any  fn's arguments
---@return any ...
function M.dual_level(fn, ...)
   scopes.check_function("forward_ad.dual_level", fn)
   if level then torch.raise "forward_ad.dual_level: another level is open; levels do not nest" end
   local mode, before
   return scopes.run(function()
      level = {duals = {}, tangents = {}}
      before = torch.autograd._dual_level(true)
      mode = recording()
   end, function(fault)
      level = nil
      torch.autograd._dual_level(before)
      if mode then getmetatable(mode).__close(mode, fault) end
   end, fn, ...)
end

local function check(name, tensor)
   if not torch.is_tensor(tensor) or not (tensor:is_floating_point() or tensor:is_complex()) then
      args.refuse("forward_ad.make_dual", name, "a floating-point or complex tensor", tensor)
   end
end

--- Makes a dual, a tensor with the values of `tensor` and with a tangent. A dual_level must be
--- open.
---@param tensor Tensor
---@param tangent Tensor  a tensor of the same shape and dtype
---@return Tensor dual
function M.make_dual(tensor, tangent)
   if not level then
      torch.raise "forward_ad.make_dual: no level is open; call it within forward_ad.dual_level"
   end
   check("tensor", tensor)
   check("tangent", tangent)
   if not tangent:is_same_size(tensor) or tangent.dtype ~= tensor.dtype then
      args.refuse("forward_ad.make_dual", "tangent", args.describe(tensor), tangent)
   end
   local dual = tensor.requires_grad and tensor:view_as(tensor) or recording.leaf(tensor)
   torch.autograd._make_dual(dual)
   local n = #level.duals + 1
   level.duals[n], level.tangents[n] = dual, tangent
   return dual
end

-- Returns two lists with an entry for each dual from which `tensor` was computed: the gradient for
-- the dual, recorded as a linear function of `seed`, and the dual's tangent.
local function pulled(tensor, seed)
   local _ <close> = pushforward()
   local before = torch.autograd._tangent_pass(true)
   local grads = table.pack(pcall(torch.autograd.grad, {tensor}, level.duals, {
      grad_outputs = {seed}, create_graph = true, allow_unused = true,
   }))
   torch.autograd._tangent_pass(before)
   if not grads[1] then error(grads[2], 0) end
   table.remove(grads, 1)
   local outputs, tangents = {}, {}
   for i, tangent in ipairs(level.tangents) do
      if grads[i] and grads[i].requires_grad then
         outputs[#outputs + 1], tangents[#tangents + 1] = grads[i], tangent
      end
   end
   return outputs, tangents
end

local function any_recorded(tensors)
   for _, tensor in ipairs(tensors) do
      if tensor.requires_grad then return true end
   end
   return false
end

--- Returns the value and the tangent of a tensor. The tangent is nil if the tensor was not computed
--- from duals, or outside of a dual_level.
---@param tensor Tensor
---@return Tensor primal
---@return Tensor? tangent  a tensor of the same shape
function M.unpack_dual(tensor)
   if not torch.is_tensor(tensor) then
      args.refuse("forward_ad.unpack_dual", "tensor", "a tensor", tensor)
   end
   if not level or #level.duals == 0 or not tensor.requires_grad then return tensor, nil end
   local _ <close> = recording()
   local seed = torch.zeros_like(tensor:detach()):requires_grad_()
   local outputs, tangents = pulled(tensor, seed)
   local keep = any_recorded(tangents) or torch.autograd._reaches_others({tensor}, level.duals)
   if #outputs == 0 then return tensor, nil end
   local tangent = torch.autograd.grad(outputs, {seed}, {
      grad_outputs = tangents, retain_graph = true, create_graph = keep, allow_unused = true,
   }) or torch.zeros_like(tensor:detach())
   return keep and tensor or tensor:detach(), tangent
end

return M
