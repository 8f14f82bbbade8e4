-- BatchNorm.lua - BatchNorm and InstanceNorm for 1 to 3 dimensions. They normalise each channel to
-- zero mean and unit variance, over the batch or for each sample, and apply a learnt affine map.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local F = require "tlua.nn.functional"
local AffineNorm = require "tlua.nn.modules.AffineNorm"

-- The base class of batch and instance normalisation, which handles the parameters, the running
-- statistics and printing.
local Norm, parent = class.class("nn.Norm", AffineNorm)

function Norm:__init(a)
   parent.__init(self)
   local place = {device = a.device, dtype = a.dtype}
   self.num_features, self.eps, self.momentum = a.num_features, a.eps, a.momentum
   self.affine, self.track_running_stats = a.affine, a.track_running_stats
   if a.affine then self:make_affine(a.num_features, place, a.bias) end
   if a.track_running_stats then
      self:register_buffer("running_mean", torch.zeros(a.num_features, place))
      self:register_buffer("running_var", torch.ones(a.num_features, place))
      self:register_buffer("num_batches_tracked",
         torch.tensor(0, {dtype = "int64", device = a.device}))
   end
end

--- Resets the running statistics to mean 0 and variance 1.
function Norm:reset_running_stats()
   if not self.track_running_stats then return end
   self.running_mean:zero_()
   self.running_var:fill_(1)
   self.num_batches_tracked:zero_()
end

--- Resets the running statistics and sets the affine map to the identity.
function Norm:reset_parameters()
   self:reset_running_stats()
   parent.reset_parameters(self)
end

function Norm:extra_repr()
   return ("%d, eps=%g, momentum=%s, affine=%s, track_running_stats=%s"):format(
      self.num_features, self.eps, self.momentum, self.affine, self.track_running_stats)
end

-- Raises an error for an input whose number of dimensions is not in the set `ranks`.
function Norm:check_input(input, ranks)
   local name = torch.type(self)
   local wanted = table.concat(ranks, " or ")
   if not torch.is_tensor(input) then args.refuse(name, "input", "a tensor", input) end
   local fits = false
   for _, rank in ipairs(ranks) do fits = fits or input:dim() == rank end
   if not fits then
      args.refuse(name, "input", ("a tensor of %s dimensions"):format(wanted), input)
   end
end

-- Counts a batch in num_batches_tracked, if the statistics are updated, and returns the weight of
-- this batch in the running statistics. If `momentum` is false, the statistics are means over all
-- batches, so the weight is 1 divided by the number of batches.
local function next_factor(self)
   if not (self.training and self.track_running_stats) then return self.momentum or 0 end
   self.num_batches_tracked:add_(1)
   return self.momentum or 1 / self.num_batches_tracked:item()
end

local function batch_forward(self, input)
   self:check_input(input, self.ranks)
   if self.eps <= 0 or self.eps ~= self.eps then
      args.refuse(torch.type(self), "eps", "a number above 0", self.eps)
   end
   local by_batch = self.training or not self.track_running_stats
   return F.batch_norm(input, self.running_mean, self.running_var, self.weight, self.bias,
      by_batch, next_factor(self), self.eps)
end

--- Normalises each sample separately. An input without a batch dimension is one sample.
local function instance_forward(self, input)
   self:check_input(input, {self.rank - 1, self.rank})
   local single = input:dim() == self.rank - 1
   if single then input = input:unsqueeze(1) end
   local by_sample = self.training or not self.track_running_stats
   local output = F.instance_norm(input, self.running_mean, self.running_var, self.weight,
      self.bias, by_sample, self.momentum or 0, self.eps)
   return single and output:squeeze(1) or output
end

-- Defines a class. With the option `momentum = false` the running statistics of batch norms are the
-- mean over all batches, and those of instance norms never change. With `bias = false` the affine
-- map only scales.
local function define(short_name, n, forward, affine, track)
   local name = "nn." .. short_name
   local signature = args.signature(([[%s(num_features: count, eps: number = 1e-5,
      momentum: number|boolean = 0.1, affine: boolean = %s, track_running_stats: boolean = %s,
      device: device?, dtype: string?, bias: boolean = true)]]):format(name, affine, track))
   local Class = class.class(name, Norm)
   Class.rank = n + 2
   Class.ranks = n == 1 and {2, 3} or {n + 2}

   function Class:__init(...)
      Norm.__init(self, signature(...))
   end

   Class.forward = forward
   return Class
end

local M = {}

--- Batch normalisation of (N, C) or (N, C, L). Training mode normalises by the mean and variance of
--- the batch, and updates running means of both. Evaluation mode normalises by these running means.
---
---     local layer = torch.nn.BatchNorm1d(1)
---     print(layer(torch.tensor {{1.0}, {3.0}}):detach():flatten())
---     --> tensor([-1.0000,  1.0000])
---     layer:eval() -- uses the running statistics: 0.9 * old + 0.1 * batch's
---     print(layer.running_mean, layer.running_var)
---     --> tensor([0.2000])	tensor([1.1000])
---@class nn.BatchNorm1d: nn.Module
---@field weight Tensor?  (num_features)
---@field bias Tensor?  (num_features)
---@field running_mean Tensor?  (num_features)
---@field running_var Tensor?  (num_features)
---@field num_batches_tracked Tensor?  () the count of batches that were seen while training
---@overload fun(num_features: integer, options?: table): nn.BatchNorm1d
M.BatchNorm1d = define("BatchNorm1d", 1, batch_forward, true, true)

--- Batch normalisation of images (N, C, H, W). The statistics and options are those of BatchNorm1d.
---
---     local layer = torch.nn.BatchNorm2d(8)
---     print(table.unpack(layer(torch.randn(4, 8, 5, 5)).shape))
---     --> 4	8	5	5
---@class nn.BatchNorm2d: nn.BatchNorm1d
---@overload fun(num_features: integer, options?: table): nn.BatchNorm2d
M.BatchNorm2d = define("BatchNorm2d", 2, batch_forward, true, true)

--- Batch normalisation of volumes (N, C, D, H, W). The statistics and options are those of
--- BatchNorm1d.
---
---     local layer = torch.nn.BatchNorm3d(8)
---     print(table.unpack(layer(torch.randn(4, 8, 2, 5, 5)).shape))
---     --> 4	8	2	5	5
---@class nn.BatchNorm3d: nn.BatchNorm1d
---@overload fun(num_features: integer, options?: table): nn.BatchNorm3d
M.BatchNorm3d = define("BatchNorm3d", 3, batch_forward, true, true)

--- Normalises each channel of each sample of an input (N, C, L) or (C, L).
---
---     local layer = torch.nn.InstanceNorm1d(1)
---     print(layer(torch.tensor {{{1.0, 3.0}}}):flatten())
---     --> tensor([-1.0000,  1.0000])
---@class nn.InstanceNorm1d: nn.BatchNorm1d
---@overload fun(num_features: integer, options?: table): nn.InstanceNorm1d
M.InstanceNorm1d = define("InstanceNorm1d", 1, instance_forward, false, false)

--- Normalises each channel of each sample of an input (N, C, H, W) or (C, H, W).
---
---     local layer = torch.nn.InstanceNorm2d(8)
---     print(table.unpack(layer(torch.randn(4, 8, 5, 5)).shape))
---     --> 4	8	5	5
---@class nn.InstanceNorm2d: nn.BatchNorm1d
---@overload fun(num_features: integer, options?: table): nn.InstanceNorm2d
M.InstanceNorm2d = define("InstanceNorm2d", 2, instance_forward, false, false)

--- Normalises each channel of each sample of an input (N, C, D, H, W) or (C, D, H, W).
---
---     local layer = torch.nn.InstanceNorm3d(8)
---     print(table.unpack(layer(torch.randn(4, 8, 2, 5, 5)).shape))
---     --> 4	8	2	5	5
---@class nn.InstanceNorm3d: nn.BatchNorm1d
---@overload fun(num_features: integer, options?: table): nn.InstanceNorm3d
M.InstanceNorm3d = define("InstanceNorm3d", 3, instance_forward, false, false)

return M
