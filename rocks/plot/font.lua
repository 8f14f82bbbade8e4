-- font.lua - a font of 3 × 5 pixels for labels in PNG files.

local M = {width = 3, height = 5}

-- The source of the font: each character has five rows of three pixels.
local source = [[
a ... .## #.# #.# .##   b #.. ##. #.# #.# ##.   c ... .## #.. #.. .##   d ..# .## #.# #.# .##
e ... .## ### #.. .##   f ..# .#. ### .#. .#.   g ... .## #.# .## ##.   h #.. ##. #.# #.# #.#
i .#. ... .#. .#. .#.   j ..# ... ..# #.# .#.   k #.. #.# ##. #.# #.#   l ##. .#. .#. .#. ###
m ... ### ### #.# #.#   n ... ##. #.# #.# #.#   o ... .#. #.# #.# .#.   p ... ##. #.# ##. #..
q ... .## #.# .## ..#   r ... .## #.. #.. #..   s ... .## ##. .## ##.   t .#. ### .#. .#. .##
u ... #.# #.# #.# .##   v ... #.# #.# #.# .#.   w ... #.# #.# ### ###   x ... #.# .#. .#. #.#
y ... #.# #.# .## ##.   z ... ### .## ##. ###
0 ### #.# #.# #.# ###   1 .#. ##. .#. .#. ###   2 ### ..# ### #.. ###   3 ### ..# .## ..# ###
4 #.# #.# ### ..# ..#   5 ### #.. ### ..# ###   6 ### #.. ### #.# ###   7 ### ..# .#. .#. .#.
8 ### #.# ### #.# ###   9 ### #.# ### ..# ###   A .#. #.# ### #.# #.#   B ##. #.# ##. #.# ##.
C .## #.. #.. #.. .##   D ##. #.# #.# #.# ##.   E ### #.. ##. #.. ###   F ### #.. ##. #.. #..
G .## #.. #.# #.# .##   H #.# #.# ### #.# #.#   I ### .#. .#. .#. ###   J ..# ..# ..# #.# .#.
K #.# #.# ##. #.# #.#   L #.. #.. #.. #.. ###   M #.# ### ### #.# #.#   N ##. #.# #.# #.# #.#
O .#. #.# #.# #.# .#.   P ##. #.# ##. #.. #..   Q .#. #.# #.# .#. ..#   R ##. #.# ##. #.# #.#
S .## #.. .#. ..# ##.   T ### .#. .#. .#. .#.   U #.# #.# #.# #.# ###   V #.# #.# #.# #.# .#.
W #.# #.# ### ### #.#   X #.# #.# .#. #.# #.#   Y #.# #.# .#. .#. .#.   Z ### ..# .#. #.. ###
. ... ... ... ... .#.   , ... ... ... .#. #..   : ... .#. ... .#. ...   - ... ... ### ... ...
+ ... .#. ### .#. ...   / ..# ..# .#. #.. #..   % #.# ..# .#. #.. #.#   = ... ### ... ### ...
( .#. #.. #.. #.. .#.   ) .#. ..# ..# ..# .#.   _ ... ... ... ... ###   * #.# .#. #.# ... ...
! .#. .#. .#. ... .#.   ? ##. ..# .#. ... .#.   ' .#. .#. ... ... ...   " #.# #.# ... ... ...
< ..# .#. #.. .#. ..#   > #.. .#. ..# .#. #..   [ ##. #.. #.. #.. ##.   ] .## ..# ..# ..# .##
# #.# ### #.# ### #.#   ^ .#. #.# ... ... ...   & .#. #.. .## #.# .##   ; .#. ... .#. .#. #..]]

local glyphs
local function load_glyphs()
   glyphs = {}
   local row = "([.#][.#][.#])"
   local pattern = "(%S) " .. row .. (" " .. row):rep(4)
   for name, a, b, c, d, e in source:gmatch(pattern) do glyphs[name] = {a, b, c, d, e} end
end

--- Returns the characters of a text as a list. Each byte that does not belong to valid UTF-8 counts
--- as a character.
---@param text string
---@return string[]
function M.letters(text)
   local list, i = {}, 1
   while i <= #text do
      local letter = text:match("^[\1-\x7F\xC2-\xF4][\x80-\xBF]*", i)
      if not (letter and utf8.len(letter) == 1) then letter = text:sub(i, i) end
      list[#list + 1] = letter
      i = i + #letter
   end
   return list
end

--- Returns the width of a text in pixels.
---@param text string
---@return integer
function M.measure(text)
   return math.max(0, #M.letters(text) * (M.width + 1) - 1)
end

--- Calls point(x, y) for every pixel of a text whose upper left corner is (0, 0). A question mark
--- stands for a character that the font does not have.
---@param text string
---@param point fun(x: integer, y: integer)
function M.draw(text, point)
   if not glyphs then load_glyphs() end
   for i, letter in ipairs(M.letters(text)) do
      for y, row in ipairs(glyphs[letter] or (letter ~= " " and glyphs["?"]) or {}) do
         for x = 1, M.width do
            if row:sub(x, x) == "#" then point((i - 1) * (M.width + 1) + x - 1, y - 1) end
         end
      end
   end
end

return M
