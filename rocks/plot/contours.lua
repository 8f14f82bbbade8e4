-- contours.lua - finds the lines on which a surface has a given height (marching squares).

local M = {}

-- Maps each of the 16 cases of a grid cell to the sides of the cell that are connected by a line.
-- The number of a case tells which corners are at least as high as the level: 1 is added for the
-- top left corner, 2 for top right, 4 for bottom right and 8 for bottom left. In the cases 5 and
-- 10, two pairs of lines are possible; the height in the middle of the cell decides between them.
local TOP <const>, RIGHT <const>, BOTTOM <const>, LEFT <const> = 1, 2, 3, 4
local sides <const> = {
   {LEFT, TOP}, {TOP, RIGHT}, {LEFT, RIGHT}, {RIGHT, BOTTOM}, {TOP, RIGHT, BOTTOM, LEFT},
   {TOP, BOTTOM}, {BOTTOM, LEFT}, {BOTTOM, LEFT}, {TOP, BOTTOM}, {LEFT, TOP, RIGHT, BOTTOM},
   {RIGHT, BOTTOM}, {LEFT, RIGHT}, {TOP, RIGHT}, {LEFT, TOP},
}

-- Finds the sides of grid cells that a level crosses, and connects them to lines. A side has the
-- same number in both cells that share it. It has at most one neighbour in each of these cells, the
-- side to which the line goes on. Returns the list of sides in the order of their cells, and two
-- tables that map a side to its two neighbours. Cells with a value that is not finite have no
-- lines.
local function connect(rows, level)
   local found, first, second = {}, {}, {}
   local function link(a, b)
      if first[a] then
         second[a] = b
      else
         first[a] = b
         found[#found + 1] = a
      end
   end
   local columns = #rows[1]
   local number = {} -- maps TOP, RIGHT, BOTTOM and LEFT to the numbers of the cell's sides
   for i = 1, #rows - 1 do
      local upper, lower = rows[i], rows[i + 1]
      for j = 1, columns - 1 do
         local a, b, c, d = upper[j], upper[j + 1], lower[j + 1], lower[j]
         local case = (a >= level and 1 or 0) + (b >= level and 2 or 0)
            + (c >= level and 4 or 0) + (d >= level and 8 or 0)
         local sum = a + b + c + d
         if case ~= 0 and case ~= 15 and sum - sum == 0 then
            -- Sides along rows get even numbers, and sides along columns get odd numbers.
            local corner = 2 * ((i - 1) * columns + j)
            number[TOP], number[LEFT] = corner, corner + 1
            number[BOTTOM], number[RIGHT] = corner + 2 * columns, corner + 3
            if (case == 5 or case == 10) and sum / 4 < level then case = 15 - case end
            local pairs_of = sides[case]
            for k = 1, #pairs_of, 2 do
               local from, to = number[pairs_of[k]], number[pairs_of[k + 1]]
               link(from, to)
               link(to, from)
            end
         end
      end
   end
   return found, first, second
end

-- Returns the position where a level crosses a side of a cell.
local function crossing(rows, level, side)
   local columns = #rows[1]
   local place = side // 2 - 1
   local i, j = place // columns + 1, place % columns + 1
   local a = rows[i][j]
   if side % 2 == 0 then return j + (level - a) / (rows[i][j + 1] - a), i end
   return j, i + (level - a) / (rows[i + 1][j] - a)
end

--- Returns the lines of a level. A line is a list {x1, y1, x2, y2, ...} in columns and rows of the
--- grid. A closed line ends at its first point.
---@param rows number[][]
---@param level number
---@return number[][]
function M.lines(rows, level)
   local found, first, second = connect(rows, level)
   local lines, seen = {}, {}
   -- Returns the chain of sides that follow the side `from`: its neighbour `to`, the next side and
   -- so on, until the line ends or is closed.
   local function follow(from, to)
      local path = {}
      while to do
         path[#path + 1] = to
         if seen[to] then break end
         seen[to] = true
         from, to = to, first[to] ~= from and first[to] or second[to]
      end
      return path
   end
   for _, start in ipairs(found) do
      if not seen[start] then
         seen[start] = true
         local forward = follow(start, first[start])
         local closed = forward[#forward] == start
         local back = closed and {} or follow(start, second[start])
         local line = {}
         local function put(side)
            local x, y = crossing(rows, level, side)
            -- a line through a corner of a cell crosses several sides at the same point, which is
            -- added once
            if x ~= line[#line - 1] or y ~= line[#line] then
               line[#line + 1], line[#line + 2] = x, y
            end
         end
         for i = #back, 1, -1 do put(back[i]) end
         put(start)
         for _, side in ipairs(forward) do put(side) end
         if #line > 2 then lines[#lines + 1] = line end
      end
   end
   return lines
end

--- Returns the height of a surface at a position between grid points, by bilinear interpolation.
--- Returns nil if the height at a neighbouring grid point is not finite.
---@param rows number[][]
---@param x number  from 1 to the number of columns
---@param y number  from 1 to the number of rows
---@return number?
function M.height(rows, x, y)
   local j = math.max(1, math.min(math.floor(x), #rows[1] - 1))
   local i = math.max(1, math.min(math.floor(y), #rows - 1))
   local u, v, upper, lower = x - j, y - i, rows[i], rows[i + 1]
   local h = (upper[j] * (1 - u) + upper[j + 1] * u) * (1 - v)
      + (lower[j] * (1 - u) + lower[j + 1] * u) * v
   return h - h == 0 and h or nil
end

return M
