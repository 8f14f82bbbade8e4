-- optim_records.lua - Torch7's tools for recording a training: optim.ConfusionMatrix and
-- optim.Logger.

local tlua = require "tlua"
local torch = require "tlua.torch7.torch"
local args = require "tlua.args"
local classes = require "tlua.torch7.classes"
local notice = require "tlua.utils.notice"
local types = require "tlua.torch7.types"

local M = {}
classes.root("optim", M)

-- ConfusionMatrix ---------------------------------------------------------------------------------

local Matrix = classes.class "optim.ConfusionMatrix"

--- Creates a matrix that counts pairs of target and prediction. The arguments are (number of
--- classes [, names]) or (names).
function Matrix:__init(n, names)
   if type(n) == "table" then n, names = #n, n end
   if not (math.type(n) and math.tointeger(n)) or n < 1 then
      args.refuse("optim.ConfusionMatrix", "nclasses", "a number of classes or their names", n)
   end
   self.nclasses, self.classes = n, names or {}
   self.mat = torch.zeros(n, n):float()
   self.valids, self.unionvalids = torch.zeros(n):float(), torch.zeros(n):float()
   self.totalValid, self.averageValid, self.averageUnionValid = 0, 0, 0
end

function Matrix:zero()
   self.mat:zero()
   self.valids:zero()
   self.unionvalids:zero()
   self.totalValid, self.averageValid = 0, 0
   return self
end

-- Converts a class to its number. The class is given as a number or as a tensor with the scores of
-- all classes.
local function class_of(name, what, value)
   if type(value) == "number" then return math.tointeger(value) end
   if not types.is_tensor(value) or value:nElement() == 0 then
      args.refuse("optim.ConfusionMatrix:" .. name, what, "a class or the scores of all classes",
         value)
   end
   if value:nElement() == 1 then return math.tointeger(value:view(-1)[1]) end
   local _, at = value:view(-1):max(1)
   return at[1]
end

local function check(self, target, prediction)
   if not target or not prediction or target < 1 or target > self.nclasses
      or prediction < 1 or prediction > self.nclasses then
      tlua.raise(("ConfusionMatrix: expected classes from 1 to %d, got %s for %s"):format(
         self.nclasses, tostring(prediction), tostring(target)))
   end
end

local function count(self, target, prediction)
   local row = self.mat[target]
   row[prediction] = row[prediction] + 1
end

--- Counts one prediction for a target. Prediction and target may be classes, or the scores of all
--- classes.
function Matrix:add(prediction, target)
   target = class_of("add", "target", target)
   prediction = class_of("add", "prediction", prediction)
   check(self, target, prediction)
   count(self, target, prediction)
end

--- Counts a batch of predictions, given as classes (n) or as scores (n, classes).
function Matrix:batchAdd(predictions, targets)
   local function check_batch(what, value)
      if not types.is_tensor(value) or value:dim() < 1 then
         args.refuse("optim.ConfusionMatrix:batchAdd", what, "a tensor of classes or of scores",
            value)
      end
   end
   check_batch("predictions", predictions)
   check_batch("targets", targets)
   if predictions:size(1) ~= targets:size(1) then
      tlua.raise(("optim.ConfusionMatrix:batchAdd: targets: expected %d, as predictions, got %d")
         :format(predictions:size(1), targets:size(1)))
   end
   local pairs_of = {}
   for i = 1, predictions:size(1) do
      local target = class_of("batchAdd", "targets", targets[i])
      local prediction = class_of("batchAdd", "predictions", predictions[i])
      check(self, target, prediction)
      pairs_of[i] = {target, prediction}
   end
   for _, pair in ipairs(pairs_of) do count(self, pair[1], pair[2]) end
end

function Matrix:updateValids()
   local good, total, sum, unions, kinds, with = 0, 0, 0, 0, 0, 0
   for t = 1, self.nclasses do
      local row, column, hit = self.mat[t]:sum(), self.mat:select(2, t):sum(), self.mat[t][t]
      self.valids[t] = hit / row
      self.unionvalids[t] = hit / (row + column - hit)
      good, total = good + hit, total + row
      if row > 0 then sum, kinds = sum + hit / row, kinds + 1 end
      if row + column > 0 then unions, with = unions + hit / (row + column - hit), with + 1 end
   end
   self.totalValid, self.averageValid, self.averageUnionValid = good / total, sum / kinds,
      unions / with
end

--- Returns Matthews' correlation coefficient of each class.
function Matrix:matthewsCorrelation()
   local all, result = self.mat:sum(), torch.zeros(self.nclasses):float()
   for t = 1, self.nclasses do
      local tp = self.mat[t][t]
      local fn, fp = self.mat[t]:sum() - tp, self.mat:select(2, t):sum() - tp
      local tn = all - tp - fn - fp
      local root = math.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))
      result[t] = root == 0 and 0 or (tp * tn - fp * fn) / root
   end
   return result
end

--- Returns two rates for each class, as two tensors: the rate of false acceptance and the rate of
--- false rejection.
function Matrix:farFrr()
   local all = self.mat:sum()
   local far, frr = torch.zeros(self.nclasses):float(), torch.zeros(self.nclasses):float()
   for t = 1, self.nclasses do
      local tp, row, column = self.mat[t][t], self.mat[t]:sum(), self.mat:select(2, t):sum()
      far[t], frr[t] = (column - tp) / (all - row), (row - tp) / row
   end
   self.classFarFrr = {far, frr}
   return far, frr
end

function Matrix:__tostring__()
   self:updateValids()
   -- Each number is printed with at least 8 columns, as in Torch7.
   local most, rows = self.mat:max(), {}
   local cell = ("%%%dd"):format(math.max(8, 1 + math.ceil(math.log(math.max(most, 1), 10))))
   local named = self.classes and self.classes[1] ~= nil
   for t = 1, self.nclasses do
      local cells = {}
      for p = 1, self.nclasses do cells[p] = cell:format(math.tointeger(self.mat[t][p])) end
      rows[t] = ("%s%s%s  %.3f%% %s\n"):format(t == 1 and "[[" or " [", table.concat(cells),
         t == self.nclasses and "]]" or "] ", self.valids[t] * 100,
         named and ("\t[class: %s]"):format(self.classes[t] or "") or "")
   end
   local text = ("ConfusionMatrix:\n%s + average row correct: %.14g%% \n"
      .. " + average rowUcol correct (VOC measure): %.14g%% \n + global correct: %.14g%%"):format(
      table.concat(rows), self.averageValid * 100, self.averageUnionValid * 100,
      self.totalValid * 100)
   -- A class without samples has the rate nan, which C prints as "-nan". The sign is removed.
   return (text:gsub("%-nan%%", "nan%%"))
end

-- Logger ------------------------------------------------------------------------------------------

local Logger = classes.class "optim.Logger"

--- Creates a logger that writes values to a file in columns. Without a path, the values are only
--- kept in memory.
function Logger:__init(path, timestamp)
   if path and timestamp then path = path .. "-" .. os.date "%Y_%m_%d_%X" end
   self.name, self.symbols, self.idx, self.figure = path, {}, {}, nil
   if path then
      local problem
      self.file, problem = io.open(path, "w")
      if not self.file then tlua.raise("optim.Logger: " .. problem) end
   end
   self.showPlot = true
end

local function write_line(self, words)
   if not self.file then return end
   local done, why = self.file:write(table.concat(words, "\t"), "\t\n")
   if done then done, why = self.file:flush() end
   if done then return end
   notice("optim.Logger: %s: %s; nothing more is written", self.name, why)
   self.file = nil
end

function Logger:setNames(names)
   if type(names) ~= "table" then
      args.refuse("optim.Logger:setNames", "names", "a list of names", names)
   end
   self.names = names
   self.nsymbols = #names
   for i in ipairs(names) do self.symbols[i] = {} end
   write_line(self, names)
   return self
end

--- Adds a row of values: a list in the order of the names, or {name = value}.
function Logger:add(row)
   if type(row) ~= "table" or next(row) == nil then
      args.refuse("optim.Logger:add", "row", "a table of values", row)
   end
   if not self.names then
      local names = {}
      for key in pairs(row) do names[#names + 1] = key end
      table.sort(names, function(a, b) return tostring(a) < tostring(b) end)
      if #row == 0 then self:setNames(names) else self:setNames((function()
         for i = 1, #row do names[i] = tostring(i) end
         return names
      end)()) end
   end
   local words, values = {}, {}
   for i, name in ipairs(self.names) do
      local value = row[i]
      if value == nil then value = row[name] end
      if value == nil then
         tlua.raise(("optim.Logger:add: the value of %s is missing"):format(name))
      end
      values[i] = value
      words[i] = type(value) == "number" and ("%11.4e"):format(value) or tostring(value)
   end
   for i, value in ipairs(values) do table.insert(self.symbols[i], value) end
   write_line(self, words)
   return self
end

function Logger:style(...)
   local first = ...
   self.styles = type(first) == "table" and first or {...}
   return self
end
function Logger:display(value)
   self.showPlot = value
   return self
end
function Logger:setlogscale(...)
   self.logscale = {...}
   return self
end

--- Draws the columns as curves and returns the logger. The drawing is in the field `figure`, and is
--- written to the log's name with `.svg` appended.
function Logger:plot()
   local curves = {}
   for i, values in ipairs(self.symbols) do
      if type(values[1]) == "number" then curves[self.names[i]] = values end
   end
   self.figure = tlua.utils.plot.curves(curves)
   if self.name then self.figure:save(self.name .. ".svg") end
   return self
end

return M
