-- DataParallel.lua - trains one model on several devices of this process, each of which computes a
-- part of the batch. The parameters stay on the first device. Every call makes differentiable
-- copies of the parameters on the other devices, so that gradients accumulate on the first device.
-- DistributedDataParallel uses several processes and is faster.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local Module = require "tlua.nn.modules.Module"

---     local nn = torch.nn
---     local model = nn.Linear(2, 1):to "sim:0"
---     local parallel = nn.DataParallel(model, {"sim:0", "sim:1"})
---     print(parallel(torch.ones(4, 2, {device = "sim:0"})).shape)
---     --> torch.Size([4, 1])
---@class nn.DataParallel: nn.Module
---@field module nn.Module  the model, on the first device
---@field device_ids string[]  the devices of the model
---@overload fun(module: nn.Module, device_ids: string[], options?: table): nn.DataParallel
local DataParallel, parent = class.class("nn.DataParallel", Module)

local name <const> = "DataParallel"

local take = args.signature [[nn.DataParallel(module: any, device_ids: table,
   output_device: device?, dim: dim = 1)]]

--- Makes the wrapper. device_ids lists the devices, such as {"sim:0", "sim:1"}; the first device
--- must have the module's parameters. output_device is the device of the result, by default the
--- first device. dim is the batch dimension.
function DataParallel:__init(...)
   parent.__init(self)
   local a = take(...)
   if not class.isinstance(a.module, Module) then
      args.refuse(name, "module", "a module", a.module)
   end
   if #a.device_ids == 0 then
      args.refuse(name, "device_ids", "at least one device", a.device_ids)
   end
   local ids = {}
   for i, device in ipairs(a.device_ids) do
      if not torch._to_device(device) then
         args.refuse(name, ("device_ids[%d]"):format(i), "a device", device)
      end
      -- gives the device a number: "sim" becomes "sim:0"
      ids[i] = torch.empty(0, {device = device}).device
   end
   for path, tensor in a.module:named_parameters() do
      if tensor.device ~= ids[1] then
         torch.raise(("%s: module: expected its parameters on %s, but %s is on %s"):format(name,
            ids[1], path, tensor.device))
      end
   end
   self.module = a.module
   rawset(self, "device_ids", ids)
   rawset(self, "output_device", a.output_device or ids[1])
   rawset(self, "dim", a.dim)
end

-- Replaces each tensor in a possibly nested table by fn's result.
local function map(value, fn)
   if torch.is_tensor(value) then return fn(value) end
   if type(value) ~= "table" or getmetatable(value) then return value end
   local copy = {}
   for key, item in pairs(value) do copy[key] = map(item, fn) end
   return copy
end

-- Splits the arguments along the batch dimension. Returns a list of arguments for each device that
-- gets a part of the batch.
local function scatter(self, arguments)
   local pieces, parts = nil, {}
   for i = 1, #self.device_ids do parts[i] = {n = arguments.n} end
   for k = 1, arguments.n do
      local cut = map(arguments[k], function(tensor)
         local list = tensor:chunk(#self.device_ids, self.dim)
         if pieces and pieces ~= #list then
            torch.raise(("%s: the arguments' batches make %d and %d parts"):format(name, pieces,
               #list))
         end
         pieces = #list
         return {chunks = list}
      end)
      for i = 1, #self.device_ids do
         local function pick(value)
            if type(value) ~= "table" or getmetatable(value) then return value end
            local piece = value.chunks and value.chunks[i]
            if value.chunks then return piece and piece:to(self.device_ids[i]) end
            local copy = {}
            for key, item in pairs(value) do copy[key] = pick(item) end
            return copy
         end
         parts[i][k] = pick(cut)
      end
   end
   for i = #self.device_ids, (pieces or 1) + 1, -1 do parts[i] = nil end
   return parts
end

-- Concatenates the results of the devices on the output device. The results must have the same
-- structure.
local function gather(self, results)
   local first = results[1]
   if torch.is_tensor(first) then
      local moved = {}
      for i, tensor in ipairs(results) do
         tensor = tensor:to(self.output_device)
         moved[i] = tensor:dim() == 0 and tensor:view(1) or tensor
      end
      return torch.cat(moved, first:dim() == 0 and 1 or self.dim)
   end
   if type(first) ~= "table" or getmetatable(first) then return first end
   local whole = {}
   for key in pairs(first) do
      local items = {}
      for i, result in ipairs(results) do items[i] = result[key] end
      whole[key] = gather(self, items)
   end
   return whole
end

-- Copies the module's tensors to another device. Returns a table from paths to the copies.
local function replicate(self, device)
   local tensors = {}
   for path, parameter in self.module:named_parameters() do tensors[path] = parameter:to(device) end
   for path, buffer in self.module:named_buffers() do tensors[path] = buffer:to(device) end
   return tensors
end

--- Computes the model's output for the batch. The first device runs the module itself, which may
--- update its buffers; the other devices run copies.
function DataParallel:forward(...)
   local parts, outputs = scatter(self, table.pack(...)), {}
   for i, part in ipairs(parts) do
      local results
      if i == 1 then
         results = table.pack(self.module(table.unpack(part, 1, part.n)))
      else
         results = table.pack(torch.func.functional_call(self.module,
            replicate(self, self.device_ids[i]), part))
      end
      for k = 1, results.n do
         outputs[k] = outputs[k] or {}
         outputs[k][i] = results[k]
      end
   end
   for k, results in ipairs(outputs) do outputs[k] = gather(self, results) end
   return table.unpack(outputs)
end

return DataParallel
