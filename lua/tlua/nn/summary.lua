-- summary.lua - torch.summary: shows each layer's output shape, parameters and operations.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local Module = require "tlua.nn.modules.Module"

--- The layers of a model with their shapes and sizes. tostring formats them as a table.
---
---     local nn = torch.nn
---     local model = nn.Sequential(nn.Linear(4, 3), nn.ReLU())
---     local summary = torch.summary(model, torch.zeros(1, 4))
---     print(summary.parameters, #summary.rows)
---     --> 15	2
---@class nn.Summary
---@field rows table[]  {path, name, shape, parameters, bytes, operations}, in the order of calls
---@field parameters integer  the number of parameters of the whole model
---@field trainable integer  number of these parameters that require gradients
---@field bytes integer  the bytes of parameters and buffers
---@field operations integer  multiplications and additions of one forward pass
local Summary = class.class "nn.Summary"

-- Returns the text of a tensor's shape, or of the shapes of all items of a list. For any other
-- value, returns the name of its Lua type.
local function shapes_of(value)
   if torch.is_tensor(value) then return "(" .. table.concat(value.shape, ", ") .. ")" end
   if type(value) ~= "table" then return type(value) end
   local shown = {}
   for i, item in ipairs(value) do shown[i] = shapes_of(item) end
   return "{" .. table.concat(shown, ", ") .. "}"
end

-- Returns the number of elements and the number of bytes of all tensors in a list.
local function measure(list)
   local count, bytes = 0, 0
   for _, tensor in ipairs(list) do
      count = count + tensor:numel()
      bytes = bytes + tensor.nbytes
   end
   return count, bytes
end

-- Returns a layer's operations: two for each use of a weight. A linear layer uses all its weights
-- for each row, a convolution uses them for each position of its output, and a transposed
-- convolution for each position of its input. For other layers with a field `weight`, one
-- multiplication and one addition are counted for each element of the output. For embeddings, and
-- for layers without a field `weight`, such as nn.LSTM, none are counted.
local function operations_of(module, input, output)
   local weight = rawget(module, "weight")
   if not torch.is_tensor(output) or not torch.is_tensor(input) then return 0 end
   if not torch.is_tensor(weight) or weight:dim() == 0 then return 0 end
   local name = torch.type(module)
   if name:find "ConvTranspose" then
      return 2 * input:numel() * (weight:numel() // weight:size(1))
   elseif name:find "Conv" or name == "nn.Linear" then
      return 2 * output:numel() * (weight:numel() // math.max(weight:size(1), 1))
   elseif name:find "Embedding" then
      return 0
   end
   return 2 * output:numel()
end

local function is_leaf(module)
   return #module:children() == 0
end

-- Registers hooks that append a row to `rows` for each call of a module without children. Returns
-- the handles that remove the hooks.
local function watch(model, rows)
   local handles = {}
   for path, module in model:named_modules() do
      if is_leaf(module) then
         handles[#handles + 1] = module:register_forward_hook(function(_, inputs, ...)
            local count, bytes = measure(module:parameters())
            rows[#rows + 1] = {
               path = path, name = torch.type(module):match "[^.]*$", shape = shapes_of((...)),
               parameters = count, bytes = bytes,
               operations = operations_of(module, inputs[1], (...)),
            }
         end)
      end
   end
   return handles
end

-- Returns the model's inputs. For a list of sizes, or for each item of a list of such lists, an
-- input is a tensor of zeros. Tensors are used unchanged.
local function inputs_of(size, dtype)
   if torch.is_tensor(size) then return {size} end
   if type(size) ~= "table" or #size == 0 then
      args.refuse("torch.summary", "size", "sizes, or a list of them", size)
   end
   if math.type(size[1]) then size = {size} end
   local inputs = {}
   for i, item in ipairs(size) do
      inputs[i] = torch.is_tensor(item) and item or torch.zeros(item, {dtype = dtype})
   end
   return inputs
end

local signature = args.signature "torch.summary(model: any, size: any, dtype: string?)"

--- Runs a model once on zeros of the given sizes, in evaluation mode and without gradients, and
--- returns each layer's output shape, parameters and operations. The sizes include the batch.
--- `print(torch.summary(...))` shows a table; the model is not changed.
---@param model nn.Module
---@param size integer[]|integer[][]|Tensor|Tensor[]  the size of the input, a list of sizes for
---   several inputs, or the inputs
---@param options? {dtype: string}  the dtype of the inputs that are made
---@return nn.Summary
local function summary(...)
   local a = signature(...)
   local model = a.model
   if not class.isinstance(model, Module) then
      args.refuse("torch.summary", "model", "a module", model)
   end
   local inputs, modes = inputs_of(a.size, a.dtype), {}
   local result = setmetatable({rows = {}}, Summary)
   for _, module in ipairs(model:modules()) do modes[module] = module.training end
   local handles = watch(model, result.rows)
   local _ <close> = torch.no_grad()
   local done, message = pcall(function() model:evaluate()(table.unpack(inputs)) end)
   for _, handle in ipairs(handles) do handle:remove() end
   for module, mode in pairs(modes) do module.training = mode end
   if not done then error(message, 0) end

   local all, trainable = model:parameters(), {}
   for _, parameter in ipairs(all) do
      if parameter.requires_grad then trainable[#trainable + 1] = parameter end
   end
   local _, buffer_bytes = measure(model:buffers())
   result.parameters, result.bytes = measure(all)
   result.bytes = result.bytes + buffer_bytes
   result.trainable = measure(trainable)
   result.operations = 0
   for _, row in ipairs(result.rows) do
      result.operations = result.operations + row.operations
   end
   return result
end

-- Writes 1234567 as 1,234,567.
local function grouped(n)
   local text = tostring(n):reverse():gsub("(%d%d%d)", "%1,"):reverse()
   return (text:gsub("^,", ""))
end

function Summary:__tostring()
   local lines = {{"layer", "result", "parameters", "bytes", "operations"}}
   for i, row in ipairs(self.rows) do
      local where = row.path == "" and row.name or ("%s (%s)"):format(row.path, row.name)
      lines[i + 1] = {where, row.shape, grouped(row.parameters), grouped(row.bytes),
         grouped(row.operations)}
   end
   lines[#lines + 1] = {"all", "", grouped(self.parameters), grouped(self.bytes),
      grouped(self.operations)}
   local widths = {}
   for _, line in ipairs(lines) do
      for k, cell in ipairs(line) do widths[k] = math.max(widths[k] or 0, #cell) end
   end
   for i, line in ipairs(lines) do
      for k, cell in ipairs(line) do
         local room = (" "):rep(widths[k] - #cell)
         line[k] = k <= 2 and cell .. room or room .. cell
      end
      lines[i] = table.concat(line, "  ")
   end
   return table.concat(lines, "\n")
end

return {summary = summary}
