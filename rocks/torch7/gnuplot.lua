-- gnuplot.lua - Torch7's package gnuplot on top of tlua's plots: figures are printed in the
-- terminal, or written to the file named by pngfigure or svgfigure.

local tlua = require "tlua"
local types = require "tlua.torch7.types"

local M = {}

local file, title

local function list(x) return types.is_tensor(x) and x:view(-1):totable() or x end

local function show(figure)
   if file then figure:save(file) else print(figure) end
   return figure
end

-- Reads a curve: {name, y}, {name, x, y}, or tensors without a name.
local function curve_of(entry, i)
   if types.is_tensor(entry) then return tostring(i), list(entry) end
   local name = type(entry[1]) == "string" and entry[1] or tostring(i)
   local tensors = {}
   for _, value in ipairs(entry) do
      if types.is_tensor(value) then tensors[#tensors + 1] = value end
   end
   return name, list(tensors[2] or tensors[1])
end

--- Draws curves. Each argument is a tensor or {name, [x,] y [, style]}.
function M.plot(...)
   local curves, entries = {}, {...}
   if type(entries[1]) == "string" then entries = {entries} end
   for i, entry in ipairs(entries) do
      if types.is_tensor(entry) or type(entry) == "table" then
         local name, values = curve_of(entry, i)
         curves[name] = values
      end
   end
   return show(tlua.utils.plot.curves(curves, {title = title}))
end

function M.imagesc(x) return show(tlua.utils.plot.image(types.untag(x:float()))) end
function M.hist(x, bins) return M.plot(x:view(-1).histc(x, bins or 30)) end
function M.title(text) title = text end
function M.figure() file, title = nil, nil end
function M.pngfigure(path) file = path end
M.svgfigure, M.epsfigure, M.pdffigure = M.pngfigure, M.pngfigure, M.pngfigure
function M.plotflush() end
function M.close() file, title = nil, nil end
for _, name in ipairs {"xlabel", "ylabel", "zlabel", "axis", "grid", "movelegend", "raw",
   "setterm"} do M[name] = function() end end

return M
