-- init.lua - torch.nn.utils: helpers for gradients and parameters of whole models.

local torch = require "tlua"
local args = require "tlua.args"
local lazy = require "tlua.lazy"

local M = {}

-- Returns a list of tensors; a single tensor becomes a list. Raises an error for a table without
-- positions, such as a module, because it would look like an empty list.
local function check_list(name, what, list)
   if torch.is_tensor(list) then return {list} end
   if type(list) ~= "table" or rawget(list, 1) == nil and next(list) ~= nil
         and not list._is_list then
      args.refuse(name, what, "a tensor or a list of tensors", list)
   end
   for i, tensor in ipairs(list) do
      if not torch.is_tensor(tensor) then
         args.refuse(name, ("%s[%d]"):format(what, i), "a tensor", tensor)
      end
   end
   return list
end

local function check_parameters(name, parameters)
   return check_list(name, "parameters", parameters)
end

-- Returns the gradients of one tensor or of a list of tensors; tensors without a gradient are
-- skipped. A sparse gradient is coalesced first, and its values are returned; the gradient of a
-- sparse parameter keeps the parameter's positions.
local function gradients(name, parameters)
   parameters = check_parameters(name, parameters)
   local list = {}
   for i = 1, #parameters do
      local grad = parameters[i].grad
      if grad and torch._sparse_parts(parameters[i]) then
         require "tlua.sparse.changes".coalesce_leaf(parameters[i])
         grad = parameters[i].grad:_values()
      elseif grad and grad.is_sparse then
         if not grad:is_coalesced() then
            grad = grad:coalesce()
            parameters[i].grad = grad
         end
         grad = grad:values()
      end
      if grad then list[#list + 1] = grad:detach() end
   end
   return list
end

-- `foreach` is accepted for PyTorch's programs and has no effect
local take_norm = args.signature [[nn.utils.get_total_norm(tensors: any, norm_type: number = 2,
   error_if_nonfinite: boolean = false, foreach: boolean?)]]
local take_with = args.signature [[nn.utils.clip_grads_with_norm_(parameters: any,
   max_norm: number, total_norm: tensor, foreach: boolean?)]]
local take_clip = args.signature [[nn.utils.clip_grad_norm_(parameters: any, max_norm: number,
   norm_type: number = 2, error_if_nonfinite: boolean = false, foreach: boolean?)]]
local take_value = args.signature [[nn.utils.clip_grad_value_(parameters: any, clip_value: number,
   foreach: boolean?)]]

local function check_finite(name, norm)
   if not torch.isfinite(norm):item() then
      torch.raise(("%s: the norm of the gradients is %s"):format(name, norm:item()))
   end
end

--- Returns the norm of all elements of the tensors, on the first tensor's device. With norm_type =
--- 0 it is the number of tensors that have an element other than 0. The function waits for the
--- device only if error_if_nonfinite is set.
---@param tensors Tensor|Tensor[]
---@param options? {norm_type: number, error_if_nonfinite: boolean}  2 and false by default
---@return Tensor  0-d
function M.get_total_norm(...)
   local a = take_norm(...)
   local list = check_list("nn.utils.get_total_norm", "tensors", a.tensors)
   if #list == 0 then return torch.tensor(0.0) end
   local norm
   -- Every total norm is the norm of the tensors' norms. For norm_type 0 it is the number of norms
   -- that are not 0.
   if a.norm_type == 0 then
      local norms = {}
      for i, t in ipairs(list) do norms[i] = torch.linalg.vector_norm(t, 0):to(list[1].device) end
      norm = torch.linalg.vector_norm(torch.stack(norms), 0)
   else
      norm = torch._total_norm(list, a.norm_type)
   end
   if a.error_if_nonfinite then check_finite("nn.utils.get_total_norm", norm) end
   return norm
end

--- Multiplies gradients by max_norm / total_norm if that factor is below 1. The program does not
--- wait for the device.
---@param parameters Tensor|Tensor[]
---@param max_norm number
---@param total_norm Tensor  the result of get_total_norm
function M.clip_grads_with_norm_(...)
   local a = take_with(...)
   local _ <close> = torch.no_grad()
   local grads = gradients("nn.utils.clip_grads_with_norm_", a.parameters)
   local factor = (a.max_norm / (a.total_norm + 1e-6)):clamp_max(1)
   if #grads > 0 then torch._foreach_mul_(grads, factor) end
end

-- Returns the norm over all ranks if parameters are split over ranks, otherwise nil.
local function split_norm(parameters, norm_type)
   local placement = package.loaded["tlua.distributed.placement"]
   if not placement then return nil end
   if torch.is_tensor(parameters) then parameters = {parameters} end
   return placement.total_norm(parameters, norm_type)
end

--- Scales the gradients down together so that their norm is at most max_norm. If parameters are
--- split over ranks (fully_shard, tensor parallelism), the norm covers all parts, and all these
--- ranks must call the function.
---@param parameters Tensor|Tensor[]
---@param max_norm number
---@param options? {norm_type: number, error_if_nonfinite: boolean}
---@return Tensor  the norm before the gradients were scaled, 0-d
function M.clip_grad_norm_(...)
   local a = take_clip(...)
   local grads = gradients("nn.utils.clip_grad_norm_", a.parameters)
   local _ <close> = torch.no_grad()
   local norm = split_norm(a.parameters, a.norm_type)
   if not norm and #grads == 0 then return torch.tensor(0.0) end
   norm = norm or M.get_total_norm(grads, a.norm_type)
   if a.error_if_nonfinite then check_finite("nn.utils.clip_grad_norm_", norm) end
   M.clip_grads_with_norm_(a.parameters, a.max_norm, norm)
   return norm
end
M.clip_grad_norm = M.clip_grad_norm_

--- Clamps every element of the gradients to [-clip_value, clip_value].
---@param parameters Tensor|Tensor[]
---@param clip_value number
function M.clip_grad_value_(...)
   local a = take_value(...)
   local _ <close> = torch.no_grad()
   for _, grad in ipairs(gradients("nn.utils.clip_grad_value_", a.parameters)) do
      grad:clamp_(-a.clip_value, a.clip_value)
   end
end

local take_row = args.signature "nn.utils.parameters_to_vector(parameters: any)"

--- Returns all elements of the parameters as one vector.
---
---     local layer = torch.nn.Linear(2, 3)
---     print(torch.nn.utils.parameters_to_vector(layer:parameters()):numel())
---     --> 9
---@param parameters Tensor[]
---@return Tensor  (n)
function M.parameters_to_vector(...)
   local rows = {}
   local parameters = check_parameters("nn.utils.parameters_to_vector", take_row(...).parameters)
   for i, parameter in ipairs(parameters) do rows[i] = parameter:reshape(-1) end
   return torch.cat(rows)
end

--- Copies a vector's elements into the parameters, in order.
---@param vector Tensor  (n)
---@param parameters Tensor[]
function M.vector_to_parameters(vector, parameters)
   local count = 0
   parameters = check_parameters("nn.utils.vector_to_parameters", parameters)
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

local modules = lazy.modules("tlua.nn.utils", {
   stateless = "functional_call stack_module_state skip_init",
   reparametrize = "weight_norm remove_weight_norm spectral_norm remove_spectral_norm",
   fusion = [[fuse_conv_bn_eval fuse_conv_bn_weights fuse_linear_bn_eval
      fuse_linear_bn_weights]],
   memory_format = [[convert_conv2d_weight_memory_format
      convert_conv3d_weight_memory_format]],
})
for _, name in ipairs {
   "rnn", "parametrize", "parametrizations", "prune", "stateless", "fusion",
} do
   modules[name] = "tlua.nn.utils." .. name
end

return lazy.load(M, modules)
