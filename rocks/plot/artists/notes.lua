-- notes.lua - methods of Axes that draw straight lines and texts beside the data.

local args = require "tlua.args"
local colours = require "tlua.plot.colours"
local common = require "tlua.plot.artists.common"
local values = require "tlua.plot.values"

local who <const> = common.who

---@class utils.plot.Axes
local Axes = {}

local take_hline = args.signature [[utils.plot.Axes.axhline(y: number = 0, color: any = 'black',
   linewidth: number = 1, linestyle: string = '-', label: string?)]]
local take_vline = args.signature [[utils.plot.Axes.axvline(x: number = 0, color: any = 'black',
   linewidth: number = 1, linestyle: string = '-', label: string?)]]

local function straight(self, name, a, which)
   common.check_flat(self, name)
   local at = a[which]
   if not values.finite(at) then args.refuse(who .. name, which, "a finite number", at) end
   common.check_width(who .. name, "linewidth", a.linewidth)
   common.add(self, {kind = "straight", which = which, at = at, width = a.linewidth,
      label = a.label, colour = colours.parse(who .. name, "color", a.color), alpha = 1,
      dash = common.dash_of(who .. name, a.linestyle), xs = which == "x" and {at} or {},
      ys = which == "y" and {at} or {}})
   return self
end

--- Draws a horizontal line across the whole width of the axes.
---@param y? number  0 by default
---@param options? {color: any, linewidth: number, linestyle: string, label: string}  as in plot
---@return utils.plot.Axes self
function Axes:axhline(...)
   return straight(self, "axhline", take_hline(...), "y")
end

--- Draws a vertical line across the whole height of the axes.
---@param x? number  0 by default
---@param options? {color: any, linewidth: number, linestyle: string, label: string}  as in plot
---@return utils.plot.Axes self
function Axes:axvline(...)
   return straight(self, "axvline", take_vline(...), "x")
end

local take_text = args.signature [[utils.plot.Axes.text(x: number, y: number, s: string,
   color: any = 'black', fontsize: number = 11, ha: string = 'left')]]

--- Writes a text at a position in the coordinates of the data.
---@param x number  the horizontal position
---@param y number  the vertical position
---@param s string  the text
---@param options? {color: any, fontsize: number, ha: string}  ha: "left", "center" or "right"
---@return utils.plot.Axes self
function Axes:text(...)
   local a = take_text(...)
   common.check_flat(self, "text")
   local anchors = {left = "start", center = "middle", right = "end"}
   if not anchors[a.ha] then
      args.refuse(who .. "text", "ha", '"left", "center" or "right"', a.ha)
   end
   common.check_width(who .. "text", "fontsize", a.fontsize)
   common.add(self, {kind = "note", x = a.x, y = a.y, text = a.s, size = a.fontsize, xs = {},
      ys = {}, anchor = anchors[a.ha], colour = colours.parse(who .. "text", "color", a.color)})
   return self
end

local take_note = args.signature [[utils.plot.Axes.annotate(text: string, xy: numbers,
   xytext: numbers?, color: any = 'black', fontsize: number = 11)]]

--- Writes a text at the position `xy`. With `xytext`, the text is written at `xytext` instead, and
--- an arrow points from it to `xy`.
---@param text string  the text
---@param xy number[]  the position {x, y}
---@param options? {xytext: number[], color: any, fontsize: number}  xytext: the text's position;
--- without it, there is no arrow
---@return utils.plot.Axes self
function Axes:annotate(text, xy, options)
   -- `options` is passed even if it is nil. Otherwise the table xy, as the last argument, would be
   -- taken for the options.
   local a = take_note(text, xy, options)
   common.check_flat(self, "annotate")
   for _, name in ipairs {"xy", "xytext"} do
      local at = a[name]
      if at and (#at ~= 2 or not (values.finite(at[1]) and values.finite(at[2]))) then
         args.refuse(who .. "annotate", name, "{x, y}", at)
      end
   end
   common.check_width(who .. "annotate", "fontsize", a.fontsize)
   local at = a.xytext or a.xy
   common.add(self, {kind = "note", x = at[1], y = at[2], text = a.text, size = a.fontsize, xs = {},
      ys = {}, anchor = "start", colour = colours.parse(who .. "annotate", "color", a.color),
      target = a.xytext and a.xy})
   return self
end

return Axes
