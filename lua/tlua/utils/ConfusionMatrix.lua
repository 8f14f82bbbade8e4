-- ConfusionMatrix.lua - counts how often each class was predicted for each target class:
--
--    local confusion = torch.utils.ConfusionMatrix(2, {names = {"no", "yes"}})
--    confusion:add(torch.tensor {1, 2, 2}, torch.tensor {1, 1, 2})
--    print(confusion.counts)
--    --> tensor([[1, 1],
--    -->         [0, 1]])

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"

local signature = args.signature "utils.ConfusionMatrix(num_classes: count, names: table?)"

---@class utils.ConfusionMatrix
---@field counts Tensor  (num_classes, num_classes), int64: rows are targets, columns predictions
---@overload fun(num_classes: integer, options?: {names: string[]}): utils.ConfusionMatrix
local ConfusionMatrix = class.class("utils.ConfusionMatrix")

---@param num_classes integer
---@param options? {names: string[]}
function ConfusionMatrix:__init(...)
   local a = signature(...)
   self.num_classes, self.names = a.num_classes, a.names or {}
   self.counts = torch.zeros(a.num_classes, a.num_classes, {dtype = "int64", device = "cpu"})
end

--- Adds the samples of a batch to the counts.
---@param predictions Tensor  scores (N, num_classes), or classes (N)
---@param targets Tensor  classes (N), from 1
---@return utils.ConfusionMatrix self
function ConfusionMatrix:add(predictions, targets)
   local _ <close> = torch.no_grad()
   if predictions:dim() == 2 then predictions = predictions:argmax(2) end
   predictions, targets = predictions:reshape(-1):long():cpu(), targets:reshape(-1):long():cpu()
   if predictions:numel() ~= targets:numel() then
      torch.raise(("utils.ConfusionMatrix.add: expected as many targets as predictions, %d, got %d")
         :format(predictions:numel(), targets:numel()))
   end
   local n = self.num_classes
   for _, classes in ipairs {predictions, targets} do
      if classes:numel() > 0 and (classes:min():item() < 1 or classes:max():item() > n) then
         torch.raise(("utils.ConfusionMatrix.add: expected classes from 1 to %d, got %d to %d")
            :format(n, classes:min():item(), classes:max():item()))
      end
   end
   local cells = (targets - 1) * n + predictions
   self.counts:view(-1):index_add_(1, cells, torch.ones_like(cells))
   return self
end

ConfusionMatrix.update = ConfusionMatrix.add

--- Returns a copy of the counts. Rows are target classes, and columns are predicted classes.
---@return Tensor  (num_classes, num_classes), int64
function ConfusionMatrix:compute()
   return self.counts:clone()
end

--- Sets all counts to zero.
---@return utils.ConfusionMatrix self
function ConfusionMatrix:reset()
   self.counts:zero_()
   return self
end

--- Returns the number of predictions that were counted.
---@return integer
function ConfusionMatrix:total()
   return self.counts:sum():item()
end

--- Returns the number of correct predictions.
---@return integer
function ConfusionMatrix:correct()
   return self.counts:diagonal():sum():item()
end

--- Returns the fraction of correct predictions; 0 if none were counted.
---@return number
function ConfusionMatrix:accuracy()
   return self:correct() / math.max(self:total(), 1)
end

function ConfusionMatrix:__tostring()
   local n = self.num_classes
   local counts = self.counts:tolist()
   local names, width = {}, 1
   for i = 1, n do
      names[i] = tostring(self.names[i] or i)
      width = math.max(width, #names[i])
      for j = 1, n do width = math.max(width, #tostring(counts[i][j])) end
   end
   local function pad(text)
      return (" "):rep(width - #text) .. text
   end
   local header = {}
   for j = 1, n do header[j] = pad(names[j]) end
   local lines = {pad "" .. " | " .. table.concat(header, " ") .. "   recall"}
   lines[2] = ("-"):rep(width) .. "-+-" .. ("-"):rep(n * (width + 1) - 1)
   for i = 1, n do
      local row, sum = {}, 0
      for j = 1, n do
         row[j] = pad(counts[i][j] == 0 and "." or tostring(counts[i][j]))
         sum = sum + counts[i][j]
      end
      local recall = sum > 0 and ("%6.1f %%"):format(100 * counts[i][i] / sum) or ""
      lines[#lines + 1] = pad(names[i]) .. " | " .. table.concat(row, " ") .. " " .. recall
   end
   return table.concat(lines, "\n")
end

return ConfusionMatrix
