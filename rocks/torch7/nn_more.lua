-- nn_more.lua - layers of Torch7's nn that few programs use: Convert, FeatureLPPooling, Kmeans.

local tlua = require "tlua"
local torch = require "tlua.torch7.torch"
local types = require "tlua.torch7.types"
local base = require "tlua.torch7.Module"

local T = tlua
local field, methods, is_tensor = types.field, types.methods, types.is_tensor
local layer = base.layer

local function shape(x) return field(x, "shape") end

-- Convert -----------------------------------------------------------------------------------------

-- Convert: reorders dimensions. Each letter names a dimension: b (batch), c, h, w, t, f. For
-- example, "bchw" to "bf" makes each example a vector. Without shapes, only the type is converted,
-- to the module's type.
local Convert = layer("Convert", function(self, inputShape, outputShape)
   if (inputShape == nil) ~= (outputShape == nil) then
      tlua.raise "nn.Convert: expected both shapes, or none"
   end
   for _, text in ipairs {inputShape or "b", outputShape or "b"} do
      if type(text) ~= "string" or not text:find "^%a+$" then
         tlua.raise("nn.Convert: expected a shape such as 'bchw', got " .. tostring(text))
      end
   end
   if inputShape and not inputShape:find "b" then inputShape = "b" .. inputShape end
   if outputShape and not outputShape:find "b" then outputShape = "b" .. outputShape end
   self.inputShape, self.outputShape = inputShape, outputShape
end, function(self, x)
   local from, to = self.inputShape, self.outputShape
   if not from then return x end
   local single = #shape(x) == #from - 1
   if single then x = T.unsqueeze(x, (from:find("b", 1, true))) end
   local size = shape(x)
   if #size ~= #from then
      tlua.raise(("nn.Convert: input: expected the dimensions %s, got %d"):format(from, #size))
   end
   local made
   if #to == #from then
      local order = {}
      for letter in to:gmatch "%a" do
         local at = from:find(letter, 1, true)
         if not at then
            tlua.raise(("nn.Convert: the input's shape %s has no dimension %s"):format(from,
               letter))
         end
         order[#order + 1] = at
      end
      made = T.permute(x, order)
   elseif to == "bf" then
      local order = {(from:find("b", 1, true))}
      for at = 1, #from do
         if at ~= order[1] then order[#order + 1] = at end
      end
      made = T.reshape(T.permute(x, order), {size[order[1]], -1})
   elseif to == "b" then
      made = T.reshape(x, {-1})
   else
      tlua.raise(("nn.Convert: cannot convert %s to %s"):format(from, to))
   end
   return single and T.squeeze(made, (to:find("b", 1, true))) or made
end)
function Convert:updateOutput(input)
   if is_tensor(input) and input:type() ~= self._type then input = input:type(self._type) end
   self._converted = input
   return base.Module.updateOutput(self, input)
end
for _, method in ipairs {"updateGradInput", "backward"} do
   Convert[method] = function(self, input, gradOutput)
      local source = self._converted or input
      self.gradInput = base.Module.updateGradInput(self, source, gradOutput)
      if is_tensor(input) and input:type() ~= self._type then
         self.gradInput = self.gradInput:type(input:type())
      end
      return self.gradInput
   end
end

-- FeatureLPPooling --------------------------------------------------------------------------------

-- FeatureLPPooling: computes the p-norm of `width` neighbouring features, at every `stride`-th
-- feature. The features are along the first dimension, or along the second dimension in batch mode.
layer("FeatureLPPooling", function(self, width, stride, power, batch_mode)
   for name, value in pairs {width = width, stride = stride, power = power} do
      if type(value) ~= "number" or value < 1 then
         tlua.raise(("nn.FeatureLPPooling: %s: expected a number from 1, got %s"):format(name,
            tostring(value)))
      end
   end
   self.width, self.stride, self.power, self.batch_mode = width, stride, power, batch_mode or false
end, function(self, x)
   local windows = methods.unfold(T.pow(x, self.power), self.batch_mode and 2 or 1, self.width,
      self.stride)
   return T.pow(T.sum(windows, -1), 1 / self.power)
end)

-- Kmeans ------------------------------------------------------------------------------------------

-- Kmeans: finds the nearest of k centres, which are the rows of `weight`. For a batch (n, dim),
-- `forward` returns for each example the number of the nearest centre, and sets `loss` to the sum
-- of the squared distances. `backward` adds the negated change of the centres to gradWeight, so
-- that updateParameters with rate 1 moves each centre to the mean of its examples.
local Kmeans = layer("Kmeans", function(self, k, dim, scale)
   if math.type(k) ~= "integer" or k < 1 or math.type(dim) ~= "integer" or dim < 1 then
      tlua.raise(("nn.Kmeans: expected counts of centres and of dimensions, got %s and %s"):format(
         tostring(k), tostring(dim)))
   end
   self.k, self.dim, self.scale = k, dim, scale or 1
   base.parameters(self, {k, dim})
   self.bestDistance, self.loss, self.clusterSampleCount = torch.Tensor(), 0, torch.zeros(k)
end)

function Kmeans:reset(stdv)
   self.weight:uniform(-(stdv or 1), stdv or 1)
   return self
end

local function batch_of(self, input)
   local x = T.detach(input)
   if #shape(x) == 1 then x = T.unsqueeze(x, 1) end
   if #shape(x) ~= 2 or shape(x)[2] ~= self.dim then
      tlua.raise(("nn.Kmeans: input: expected (n, %d), got (%s)"):format(self.dim,
         table.concat(shape(input), ", ")))
   end
   return x
end

local function nearest(self, x)
   local w = T.detach(self.weight)
   return T.min(T.sum(T.square(T.sub(T.unsqueeze(x, 2), T.unsqueeze(w, 1))), 3), 2)
end

--- Sets the centres to examples that are chosen at random.
function Kmeans:initRandom(input)
   local x = batch_of(self, input)
   if shape(x)[1] < self.k then
      tlua.raise(("nn.Kmeans:initRandom: expected at least %d examples, got %d"):format(self.k,
         shape(x)[1]))
   end
   local order = T.narrow(T.randperm(shape(x)[1], {dtype = "int64",
      device = field(x, "device")}), 1, 1, self.k)
   methods.copy_(self.weight, T.index_select(x, 1, order))
   return self
end

--- Sets the centres to examples. Each new centre is drawn with a probability proportional to its
--- squared distance to the nearest centre chosen before.
function Kmeans:initKmeansPlus(input)
   local x = batch_of(self, input)
   local n = shape(x)[1]
   local distance
   for c = 1, self.k do
      local at
      if distance and methods.item(T.sum(distance)) > 0 then
         at = methods.item(T.multinomial(distance, 1))
      else
         at = torch.random(n)
      end
      local chosen = T.narrow(x, 1, at, 1)
      methods.copy_(T.narrow(self.weight, 1, c, 1), chosen)
      local d = T.sum(T.square(T.sub(x, chosen)), 2)
      distance = distance and T.minimum(distance, d) or d
   end
   return self
end

function Kmeans:updateOutput(input)
   local x = batch_of(self, input)
   local distance, at = nearest(self, x)
   self.bestDistance, self.loss = types.tag(distance), methods.item(T.sum(distance))
   self.output = types.tag(at):typeAs(self.weight)
   return self.output
end

function Kmeans:updateGradInput(input)
   self.gradInput = input:clone():zero()
   return self.gradInput
end

function Kmeans:accGradParameters(input, _, scale)
   local x = batch_of(self, input)
   local _, at = nearest(self, x)
   for c = 1, self.k do
      local rows = T.flatten(T.nonzero(T.eq(at, c)))
      local count = methods.numel(rows)
      self.clusterSampleCount[c] = count
      if count > 0 then
         local mean = T.mean(T.index_select(x, 1, rows), 1)
         self.gradWeight[c]:add((scale or 1) * self.scale,
            types.tag(T.sub(T.detach(self.weight[c]), mean)))
      end
   end
end

return base.nn
