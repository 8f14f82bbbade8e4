-- common.lua - helper functions that the drawing methods of Axes share. They check options and
-- choose colours.

local args = require "tlua.args"
local colours = require "tlua.plot.colours"
local torch = require "tlua"
local values = require "tlua.plot.values"

local M = {}

--- The prefix of the methods' names in error messages.
M.who = "utils.plot.Axes."

-- Returns the given colour as a number. If it is nil, returns the next colour of the cycle C0 to
-- C9.
function M.next_colour(self, title, given)
   if given ~= nil then return colours.parse(title, "color", given) end
   return colours.of_cycle(self.lines + 1)
end

-- Adds an artist to the axes. `in_cycle` says whether its colour is the next one of the cycle.
function M.add(self, artist, in_cycle)
   if in_cycle then self.lines = self.lines + 1 end
   self.artists[#self.artists + 1] = artist
   return artist
end

function M.check_flat(self, name)
   if self.projection then
      torch.raise(("%s%s: expected axes of two dimensions, got a projection in 3d"):format(M.who,
         name))
   end
end

-- Raises an error unless the axis `which` can have a scale.
function M.check_scale(self, name, which, scale)
   M.check_flat(self, name)
   if scale ~= "linear" and scale ~= "log" then
      args.refuse(M.who .. name, "scale", '"linear" or "log"', scale)
   end
   local limits = self.limits[which]
   if scale == "log" and limits and (limits[1] <= 0 or limits[2] <= 0) then
      torch.raise(("%s%s: expected limits above 0, got %g and %g"):format(M.who, name, limits[1],
         limits[2]))
   end
end

function M.check_alpha(title, alpha)
   if not (alpha >= 0 and alpha <= 1) then
      args.refuse(title, "alpha", "a number from 0 to 1", alpha)
   end
end

function M.check_width(title, name, value)
   if not (value >= 0 and value <= 1000) then
      args.refuse(title, name, "a number from 0 to 1000", value)
   end
end

local dashes <const> = {["-"] = false, ["--"] = {6, 3}, [":"] = {1.5, 2.5},
   ["-."] = {6, 2.5, 1.5, 2.5}, none = "none", [""] = "none"}

function M.dash_of(title, style)
   local dash = dashes[style]
   if dash == nil then args.refuse(title, "linestyle", '"-", "--", ":", "-." or "none"', style) end
   return dash
end

local markers <const> = {o = true, s = true, ["^"] = true, v = true, x = true, ["+"] = true,
   D = true, ["."] = true, none = true}

function M.check_marker(title, marker)
   if marker and not markers[marker] then
      args.refuse(title, "marker", '"o", "s", "^", "v", "D", "x", "+", "." or "none"', marker)
   end
   return marker ~= "none" and marker or nil
end

function M.pair(title, x, y)
   if y == nil then
      y = values.list(title, "y", x)
      return values.positions(#y), y
   end
   x, y = values.list(title, "x", x), values.list(title, "y", y)
   if #x ~= #y then
      torch.raise(("%s: expected as many x as y, got %d and %d"):format(title, #x, #y))
   end
   return x, y
end

function M.check_colours(title, low, high)
   if not (low <= high and values.finite(low) and values.finite(high)) then
      torch.raise(("%s: vmin: expected at most vmax, got %g and %g"):format(title, low, high))
   end
end

-- Reads the option `c` of the n points of a scatter plot. It is one colour for all points, or a
-- list of n numbers, which the colour map `cmap` converts to colours.
function M.point_colours(self, title, a, n)
   local c = a.c
   local is_numbers = torch.is_tensor(c)
      or type(c) == "table" and type(c[1]) == "number" and (#c ~= 3 or n == 3)
   if not is_numbers then return {colour = M.next_colour(self, title, c)} end
   local list = values.list(title, "c", c)
   values.same_count(title, "c", #list, n)
   local low, high = values.range(list)
   low, high = a.vmin or low or 0, a.vmax or high or 1
   M.check_colours(title, low, high)
   return {shades = list, map = colours.map(title, a.cmap), vmin = low, vmax = high,
      colour = colours.of_cycle(1)}
end

-- Returns the areas of the n points of a scatter plot.
function M.sizes(title, s, n)
   local sizes = values.spread(title, "s", s, n)
   for i, size in ipairs(sizes) do
      if size < 0 then
         args.refuse(title, ("s, value %d"):format(i), "a number of at least 0", size)
      end
   end
   return sizes
end

-- Returns a table {below = list, above = list} of the lengths of n error bars. `value` is one
-- number, n numbers, or {below, above}, where each of the two is one number or n numbers.
function M.errors_of(title, name, value, n)
   if value == nil then return nil end
   local below, above
   local two = type(value) == "table" and not getmetatable(value) and #value == 2
      and type(value[1]) ~= "number"
   if torch.is_tensor(value) and value:dim() == 2 and value:size(1) == 2 then
      value, two = {value[1], value[2]}, true
   end
   if two then
      below = values.spread(title, name, value[1], n)
      above = values.spread(title, name, value[2], n)
   else
      below = values.spread(title, name, value, n)
      above = below
   end
   for _, list in ipairs {below, above} do
      for i, distance in ipairs(list) do
         if distance < 0 then
            args.refuse(title, ("%s, value %d"):format(name, i), "a number of at least 0", distance)
         end
      end
   end
   return {below = below, above = above}
end

function M.add_ends(list, centre, errors)
   local all = table.move(list, 1, #list, 1, {})
   if not errors then return all end
   for i, value in ipairs(centre) do
      all[#all + 1] = value - errors.below[i]
      all[#all + 1] = value + errors.above[i]
   end
   return all
end

function M.check_space(self, name)
   if self.projection ~= "3d" then
      torch.raise(('%s%s: expected axes with projection = "3d"'):format(M.who, name))
   end
end

return M
