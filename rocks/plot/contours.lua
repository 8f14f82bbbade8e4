-- contours.lua - finds the lines on which a surface has a given height (marching squares).

local M = {}

-- Calls visit(x0, y0, x1, y1) for each line segment of a level. x is a column and y a row of the
-- grid, from 1, with fractions. Cells with a value that is not finite have no segments.
local function each_piece(rows, level, visit)
   for i = 1, #rows - 1 do
      local upper, lower = rows[i], rows[i + 1]
      for j = 1, #upper - 1 do
         local a, b, c, d = upper[j], upper[j + 1], lower[j + 1], lower[j]
         local sum = a + b + c + d
         if sum - sum == 0 then
            local case = (a >= level and 1 or 0) + (b >= level and 2 or 0)
               + (c >= level and 4 or 0) + (d >= level and 8 or 0)
            if case ~= 0 and case ~= 15 then
               -- the points where the level crosses the four sides of the cell; each is used only
               -- if the level is between the heights at the ends of its side
               local function top() return j + (level - a) / (b - a), i end
               local function right() return j + 1, i + (level - b) / (c - b) end
               local function bottom() return j + (level - d) / (c - d), i + 1 end
               local function left() return j, i + (level - a) / (d - a) end
               local function piece(from, to)
                  local x0, y0 = from()
                  local x1, y1 = to()
                  visit(x0, y0, x1, y1)
               end
               local middle = sum / 4 >= level
               if case == 1 or case == 14 then piece(left, top)
               elseif case == 2 or case == 13 then piece(top, right)
               elseif case == 4 or case == 11 then piece(right, bottom)
               elseif case == 8 or case == 7 then piece(bottom, left)
               elseif case == 3 or case == 12 then piece(left, right)
               elseif case == 6 or case == 9 then piece(top, bottom)
               elseif (case == 5) == middle then -- the middle connects two opposite corners
                  piece(top, right)
                  piece(bottom, left)
               else
                  piece(left, top)
                  piece(right, bottom)
               end
            end
         end
      end
   end
end

local function key_of(x, y) return ("%.9g,%.9g"):format(x, y) end

--- Returns the lines of a level, each as {x1, y1, x2, y2, ...} in columns and rows of the grid.
---@param rows number[][]
---@param level number
---@return number[][]
function M.lines(rows, level)
   local ends, pieces = {}, {}
   local function add(key, piece)
      ends[key] = ends[key] or {}
      table.insert(ends[key], piece)
   end
   each_piece(rows, level, function(x0, y0, x1, y1)
      local a, b = key_of(x0, y0), key_of(x1, y1)
      if a == b then return end
      local piece = {a = a, b = b, x0 = x0, y0 = y0, x1 = x1, y1 = y1}
      pieces[#pieces + 1] = piece
      add(a, piece)
      add(b, piece)
   end)
   local lines = {}
   -- Follows connected segments from a point, and calls `put` for each further point.
   local function follow(key, put)
      while true do
         local next_piece
         for _, piece in ipairs(ends[key]) do
            if not piece.used then next_piece = piece break end
         end
         if not next_piece then return end
         next_piece.used = true
         if next_piece.a == key then
            put(next_piece.x1, next_piece.y1)
            key = next_piece.b
         else
            put(next_piece.x0, next_piece.y0)
            key = next_piece.a
         end
      end
   end
   for _, piece in ipairs(pieces) do
      if not piece.used then
         piece.used = true
         local forward, back = {piece.x0, piece.y0, piece.x1, piece.y1}, {}
         follow(piece.b, function(x, y)
            forward[#forward + 1], forward[#forward + 2] = x, y
         end)
         follow(piece.a, function(x, y) back[#back + 1] = {x, y} end)
         local line = {}
         for i = #back, 1, -1 do line[#line + 1], line[#line + 2] = back[i][1], back[i][2] end
         lines[#lines + 1] = table.move(forward, 1, #forward, #line + 1, line)
      end
   end
   return lines
end

--- Returns the height of a surface at a position between grid points, by bilinear interpolation;
--- nil if a neighbouring grid point is not finite.
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
