-- Axes.lua - the axes of one drawing in a figure that utils.plot.subplots has created. The methods
-- have matplotlib's names. They collect artists, which are the things to draw, such as lines;
-- panels.lua draws the artists.

local args = require "tlua.args"
local class = require "tlua.class"
local common = require "tlua.plot.artists.common"
local torch = require "tlua"
local values = require "tlua.plot.values"

--- One drawing of a figure, with its axes. Methods and options have matplotlib's names. A line that
--- is given without x has x = 1, 2, 3 and so on.
---
---     local figure, axes = torch.utils.plot.subplots()
---     axes:plot({1, 4, 9}, {label = "squares"})
---     axes:legend()
---     axes:set_title "growth"
---     print(figure:svg():find "squares" ~= nil)
---     --> true
---@class utils.plot.Axes
local Axes = class.class("utils.plot.Axes")

local who <const> = common.who

function Axes:__init(figure, projection)
   self.figure, self.projection = figure, projection
   self.artists, self.lines = {}, 0
   self.scale = {x = "linear", y = "linear"}
   self.limits, self.ticks, self.labels = {}, {}, {}
   self.title = ""
end

-- The methods that add artists are defined in the folder artists.
for _, module in ipairs {
   "tlua.plot.artists.lines", "tlua.plot.artists.bars", "tlua.plot.artists.matrices",
   "tlua.plot.artists.space", "tlua.plot.artists.notes",
} do
   for name, method in pairs(require(module)) do Axes[name] = method end
end

-- Raises an error about additional arguments, such as matplotlib's options that are not supported
-- here.
local function no_more(name, ...)
   if select("#", ...) > 0 then
      torch.raise(("%s%s: expected no further argument, got %s"):format(who, name,
         args.describe((...))))
   end
end

local function check_text(name, text, ...)
   no_more(name, ...)
   if type(text) ~= "string" then args.refuse(who .. name, "text", "a string", text) end
   return text
end

--- Sets the title.
---@param text string  the text
---@return utils.plot.Axes self
function Axes:set_title(text, ...)
   self.title = check_text("set_title", text, ...)
   return self
end

--- Sets the label of the x axis.
---@param text string  the text
---@return utils.plot.Axes self
function Axes:set_xlabel(text, ...)
   self.labels.x = check_text("set_xlabel", text, ...)
   return self
end

--- Sets the label of the y axis.
---@param text string  the text
---@return utils.plot.Axes self
function Axes:set_ylabel(text, ...)
   self.labels.y = check_text("set_ylabel", text, ...)
   return self
end

--- Sets the label of the z axis.
---@param text string  the text
---@return utils.plot.Axes self
function Axes:set_zlabel(text, ...)
   common.check_space(self, "set_zlabel")
   self.labels.z = check_text("set_zlabel", text, ...)
   return self
end

local function set_limits(self, name, axis, low, high, ...)
   no_more(name, ...)
   if type(low) == "table" and high == nil then low, high = low[1], low[2] end
   if type(low) ~= "number" or type(high) ~= "number" or low == high
      or not (values.finite(low) and values.finite(high)) then
      torch.raise(("%s%s: expected two different finite numbers, got %s and %s"):format(who, name,
         args.describe(low), args.describe(high)))
   end
   if self.scale[axis] == "log" and (low <= 0 or high <= 0) then
      torch.raise(("%s%s: expected numbers above 0 on a logarithmic axis, got %g and %g"):format(
         who, name, low, high))
   end
   self.limits[axis] = {low, high}
   return self
end

--- Sets the range of x.
---@param left number  the left end
---@param right number  the right end
---@return utils.plot.Axes self
function Axes:set_xlim(left, right, ...)
   return set_limits(self, "set_xlim", "x", left, right, ...)
end

--- Sets the range of y. If `bottom` is larger than `top`, y increases downwards.
---@param bottom number  the lower end
---@param top number  the upper end
---@return utils.plot.Axes self
function Axes:set_ylim(bottom, top, ...)
   return set_limits(self, "set_ylim", "y", bottom, top, ...)
end

local function set_scale(self, name, axis, scale, ...)
   no_more(name, ...)
   common.check_scale(self, name, axis, scale)
   self.scale[axis] = scale
   return self
end

--- Sets the scale of x.
---@param scale string  "linear" or "log"
---@return utils.plot.Axes self
function Axes:set_xscale(scale, ...)
   return set_scale(self, "set_xscale", "x", scale, ...)
end

--- Sets the scale of y.
---@param scale string  "linear" or "log"
---@return utils.plot.Axes self
function Axes:set_yscale(scale, ...)
   return set_scale(self, "set_yscale", "y", scale, ...)
end

local function set_ticks(self, name, axis, ticks, texts, ...)
   no_more(name, ...)
   common.check_flat(self, name)
   local list = values.list(who .. name, "ticks", ticks)
   if texts ~= nil then
      if type(texts) ~= "table" then
         args.refuse(who .. name, "labels", "a list of texts", texts)
      end
      values.same_count(who .. name, "labels", #texts, #list)
      values.check_texts(who .. name, "labels", texts)
   end
   local marks = {}
   for i, at in ipairs(list) do
      if values.finite(at) then
         marks[#marks + 1] = {value = at, text = texts and tostring(texts[i]) or ("%g"):format(at)}
      end
   end
   self.ticks[axis] = marks
   return self
end

--- Sets the tick marks of the x axis, and optionally their texts.
---@param ticks number[]|Tensor  the positions
---@param labels? string[]  the texts
---@return utils.plot.Axes self
function Axes:set_xticks(ticks, labels, ...)
   return set_ticks(self, "set_xticks", "x", ticks, labels, ...)
end

--- Sets the tick marks of the y axis, and optionally their texts.
---@param ticks number[]|Tensor  the positions
---@param labels? string[]  the texts
---@return utils.plot.Axes self
function Axes:set_yticks(ticks, labels, ...)
   return set_ticks(self, "set_yticks", "y", ticks, labels, ...)
end

local corners <const> = {best = true, ["upper right"] = true, ["upper left"] = true,
   ["lower left"] = true, ["lower right"] = true}

local take_legend = args.signature [[utils.plot.Axes.legend(loc: string = 'best')]]

--- Shows a legend that lists all lines, points, bars and areas that have a label.
---@param options? {loc: string}  loc: "best", "upper right", "upper left", "lower left" or
--- "lower right"
---@return utils.plot.Axes self
function Axes:legend(...)
   local a = take_legend(...)
   if not corners[a.loc] then
      args.refuse(who .. "legend", "loc", '"best" or a corner such as "upper right"', a.loc)
   end
   self.legend_at = a.loc
   return self
end

--- Shows or hides grid lines at the tick marks of both axes.
---@param on? boolean  true by default
---@return utils.plot.Axes self
function Axes:grid(on, ...)
   no_more("grid", ...)
   if on ~= nil and type(on) ~= "boolean" then
      args.refuse(who .. "grid", "on", "a boolean", on)
   end
   self.has_grid = on ~= false
   return self
end

function Axes:__tostring()
   return ("utils.plot.Axes(%d artists%s)"):format(#self.artists,
      self.title ~= "" and ", " .. self.title or "")
end

return Axes
