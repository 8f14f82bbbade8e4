-- data_parallel.lua - computes a module for one batch on several devices of this process.

local args = require "tlua.args"
local DataParallel = require "tlua.nn.parallel.DataParallel"

local take = args.signature [[nn.parallel.data_parallel(module: any, inputs: any,
   device_ids: table, output_device: device?, dim: dim = 1)]]

--- Makes one call of a module as nn.DataParallel does: each device computes a part of the batch.
---
---     local model, x = torch.nn.Linear(2, 3), torch.ones(4, 2)
---     local y = torch.nn.parallel.data_parallel(model, x, {"cpu"})
---     print(y.shape)
---     --> torch.Size([4, 3])
---@names nn.parallel.data_parallel
---@param module nn.Module
---@param inputs Tensor|table  the argument, or a list of them
---@param device_ids string[]  the first has the module's parameters
---@param options? {output_device: string, dim: integer}
---@return Tensor|table
return function(...)
   local a = take(...)
   local model = DataParallel(a.module, a.device_ids,
      {output_device = a.output_device, dim = a.dim})
   local inputs = a.inputs
   local is_list = type(inputs) == "table" and not getmetatable(inputs) and #inputs > 0
   if is_list then return model(table.unpack(inputs)) end
   return model(inputs)
end
