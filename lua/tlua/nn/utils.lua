-- utils.lua - torch.nn.utils: helpers for gradients and parameters of whole models.

local torch = require "tlua"
local args = require "tlua.args"
local lazy = require "tlua.lazy"

local M = {}

-- One tensor or a list of them, as a list of the gradients that are there.
local function gradients(name, parameters)
   if torch.is_tensor(parameters) then parameters = {parameters} end
   if type(parameters) ~= "table" then
      args.refuse(name, "parameters", "a tensor or a list of tensors", parameters)
   end
   local list = {}
   for i = 1, #parameters do
      local grad = parameters[i].grad
      if grad then list[#list + 1] = grad:detach() end
   end
   return list
end

local take_clip = args.signature [[nn.utils.clip_grad_norm_(parameters: any, max_norm: number,
   norm_type: number = 2, error_if_nonfinite: boolean = false)]]

--- The norm of all elements of tensors taken together, on the first one's device. Nothing waits.
---@param tensors Tensor|Tensor[]
---@param norm_type? number  2 by default
---@return Tensor  0-d
function M.get_total_norm(tensors, norm_type)
   if torch.is_tensor(tensors) then tensors = {tensors} end
   return torch._total_norm(tensors, norm_type or 2)
end

--- Multiplies gradients by max_norm / total_norm where that is below 1. Nothing waits.
---@param parameters Tensor|Tensor[]
---@param max_norm number
---@param total_norm Tensor  what get_total_norm gives
function M.clip_grads_with_norm_(parameters, max_norm, total_norm)
   local _ <close> = torch.no_grad()
   local grads = gradients("nn.utils.clip_grads_with_norm_", parameters)
   local factor = (max_norm / (total_norm + 1e-6)):clamp_max(1)
   if #grads > 0 then torch._foreach_mul_(grads, factor) end
end

--- Scales the gradients down together so that their norm is at most max_norm.
---@param parameters Tensor|Tensor[]
---@param max_norm number
---@param options? {norm_type: number, error_if_nonfinite: boolean}
---@return Tensor  the norm before, 0-d
function M.clip_grad_norm_(...)
   local a = take_clip(...)
   local grads = gradients("nn.utils.clip_grad_norm_", a.parameters)
   if #grads == 0 then return torch.tensor(0.0) end
   local _ <close> = torch.no_grad()
   local norm = M.get_total_norm(grads, a.norm_type)
   if a.error_if_nonfinite and not torch.isfinite(norm):item() then
      torch.raise(("nn.utils.clip_grad_norm_: the norm of the gradients is %s"):format(
         norm:item()))
   end
   M.clip_grads_with_norm_(a.parameters, a.max_norm, norm)
   return norm
end

--- Clamps every element of the gradients to [-clip_value, clip_value].
---@param parameters Tensor|Tensor[]
---@param clip_value number
function M.clip_grad_value_(parameters, clip_value)
   if type(clip_value) ~= "number" then
      args.refuse("nn.utils.clip_grad_value_", "clip_value", "a number", clip_value)
   end
   local _ <close> = torch.no_grad()
   for _, grad in ipairs(gradients("nn.utils.clip_grad_value_", parameters)) do
      grad:clamp_(-clip_value, clip_value)
   end
end

--- All elements in one row.
---@param parameters Tensor[]
---@return Tensor  (n)
function M.parameters_to_vector(parameters)
   local rows = {}
   for i, parameter in ipairs(parameters) do rows[i] = parameter:reshape(-1) end
   return torch.cat(rows)
end

--- Copies a row's elements into the parameters, in order.
---@param vector Tensor  (n)
---@param parameters Tensor[]
function M.vector_to_parameters(vector, parameters)
   local count = 0
   for _, parameter in ipairs(parameters) do count = count + parameter:numel() end
   if not torch.is_tensor(vector) or vector:dim() ~= 1 or vector:numel() ~= count then
      args.refuse("nn.utils.vector_to_parameters", "vector",
         ("a tensor of shape (%d)"):format(count), vector)
   end
   local _ <close> = torch.no_grad()
   local start = 1
   for _, parameter in ipairs(parameters) do
      local n = parameter:numel()
      parameter:copy_(vector:narrow(1, start, n):view_as(parameter))
      start = start + n
   end
end

return lazy.load(M, {rnn = "tlua.nn.utils.rnn"})
