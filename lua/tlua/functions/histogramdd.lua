-- histogramdd.lua - torch.histogramdd: counts the points in each cell of a grid.

local torch = require "tlua"
local args = require "tlua.args"

local M = {}

local signature = args.signature [[histogramdd(input: tensor, bins: integer|table, range: numbers?,
   weight: tensor?, density: boolean = false)]]

-- Returns the lowest and the highest edge along coordinate d. The two edges always differ, even if
-- all points have the same coordinate.
local function ends(points, range, d)
   local low, high
   if range then
      low, high = range[2 * d - 1], range[2 * d]
   elseif points:size(1) == 0 then
      return 0, 1
   else
      low, high = points:select(2, d):min():item(), points:select(2, d):max():item()
   end
   if not (low <= high and low > -math.huge and high < math.huge) then
      torch.raise(("histogramdd: expected a finite range with min <= max, got %g to %g for "
         .. "coordinate %d"):format(low, high, d))
   end
   if low == high then return low - 0.5, high + 0.5 end
   return low, high
end

local function check_edges(edges, points)
   if not torch.is_tensor(edges) or edges:dim() ~= 1 or edges:numel() < 2
      or edges.dtype ~= points.dtype or edges.device ~= points.device then
      args.refuse("histogramdd", "bins", ("vectors of at least 2 %s edges on input's device")
         :format(points.dtype), edges)
   end
   return edges:detach():clone()
end

-- Returns a list of tensors: the edges of the cells along each coordinate.
local function edges_of(points, bins, range)
   local edges, listed = {}, type(bins) == "table"
   for d = 1, points:size(2) do
      local n = listed and bins[d] or bins
      if listed and torch.is_tensor(bins[1]) then
         edges[d] = check_edges(n, points)
      elseif math.type(n) ~= "integer" or n < 1 then
         args.refuse("histogramdd", "bins", "at least 1 along each coordinate", n)
      else
         local low, high = ends(points, range, d)
         edges[d] = torch.linspace(low, high, n + 1, {dtype = points.dtype, device = points.device})
      end
   end
   return edges
end

local function check(a)
   local x, n = a.input, a.input:dim() >= 2 and a.input:size(-1)
   if not n or not (x.dtype == "float32" or x.dtype == "float64") then
      args.refuse("histogramdd", "input", "points (..., n) of float32 or float64", x)
   end
   if type(a.bins) == "table" and #a.bins ~= n then
      torch.raise(("histogramdd: bins: expected %d, one for each coordinate, got %d"):format(
         n, #a.bins))
   end
   if a.range and #a.range ~= 2 * n then
      torch.raise(("histogramdd: range: expected %d numbers, two for each coordinate, got %d")
         :format(2 * n, #a.range))
   end
   local w = a.weight
   if w and not (w.dtype == x.dtype and torch.equal(torch.tensor(w.shape),
      torch.tensor(x.shape):narrow(1, 1, x:dim() - 1))) then
      args.refuse("histogramdd", "weight", ("%s numbers, one for each point of input, which has "
         .. "shape (%s)"):format(x.dtype, table.concat(x.shape, ", ")), w)
   end
end

-- Normalizes a histogram so that its integral over all cells is 1.
local function as_density(hist, edges)
   hist = hist / hist:sum()
   for d, e in ipairs(edges) do
      local shape = {}
      for k = 1, #edges do shape[k] = k == d and -1 or 1 end
      hist = hist / e:diff():view(shape)
   end
   return hist
end

--- Counts the points (..., n) in each cell of an n-dimensional grid. With weight it sums the
--- points' weights, and with density it normalizes the result so that the integral is 1. A cell
--- includes its lower edges, and the last cell along a coordinate also its upper edge. bins is the
--- number of cells along each coordinate, or a list with a tensor of edges for each coordinate;
--- range lists the lowest and the highest edge of each coordinate, by default the smallest and
--- largest values of the points.
---@param input Tensor  float32 or float64
---@param bins integer|integer[]|Tensor[]
---@param options? table  range = {low1, high1, low2, ...}, weight = Tensor (...), density = boolean
---@return Tensor hist
---@return Tensor[] bin_edges
function M.histogramdd(...)
   local a = signature(...)
   check(a)
   local _ <close> = torch.no_grad()
   local points = a.input:detach():reshape(-1, a.input:size(-1))
   local edges = edges_of(points, a.bins, a.range)
   local cell = torch.zeros(points:size(1), {dtype = "int64", device = points.device})
   local inside = torch.ones(points:size(1), {dtype = "bool", device = points.device})
   local sizes = {}
   for d, e in ipairs(edges) do
      local n, x = e:numel() - 1, points:select(2, d):contiguous()
      sizes[d] = n
      inside = inside & x:ge(e[1]) & x:le(e[n + 1])
      -- The cells along a coordinate are numbered from 1. An element equal to the last edge gets
      -- the number n + 1, which the clamp changes to n.
      local part = torch.searchsorted(e, x, {right = true}) - 1
      cell = cell * n + part:clamp(1, n) - 1
   end
   local counted = (a.weight and a.weight:detach() or torch.ones(points:size(1),
      {dtype = points.dtype, device = points.device})):reshape(-1)
   local cells = 1
   for _, n in ipairs(sizes) do cells = cells * n end
   local hist = torch.zeros(cells, {dtype = points.dtype, device = points.device})
   hist = hist:scatter_add(1, cell + 1, counted:masked_fill(~inside, 0)):view(sizes)
   if a.density then hist = as_density(hist, edges) end
   return hist, edges
end

return M
