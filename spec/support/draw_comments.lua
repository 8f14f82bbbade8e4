-- Draws comments at random from the files that git tracks, for a reader who marks each of them as
-- clear or not at first reading.
--
--    ./tlua spec/support/draw_comments.lua [COUNT [SEED [FOLDER ...]]]
--
-- It prints the seed, then each comment with its file, its line and the line of code below it.
-- Several lines of one comment count once. Rulers, annotations without prose, directives to tools
-- and notes of one word are left out.

local count = math.tointeger(tonumber(arg[1] or 100))
local seed = math.tointeger(tonumber(arg[2] or os.time()))
if not (count and seed) then
   io.stderr:write "draw_comments: expected COUNT and SEED to be whole numbers\n"
   os.exit(1)
end
local folders = table.move(arg, 3, #arg, 1, {})
if #folders == 0 then folders = { "src", "kernels", "lua", "spec", "rocks" } end

local in_c = { c = true, h = true, cu = true, cuh = true }

local function quoted(word) return "'" .. word:gsub("'", [['\'']]) .. "'" end

local function tracked_files()
   local words = { "git ls-files --" }
   for _, folder in ipairs(folders) do words[#words + 1] = quoted(folder) end
   local pipe <close> = assert(io.popen(table.concat(words, " ")))
   local files = {}
   for path in pipe:lines() do files[#files + 1] = path end
   return files
end

local function lines_of(path)
   local lines = {}
   for line in io.lines(path) do lines[#lines + 1] = line end
   return lines
end

-- Calls found(first, last, text) for each comment in C: line numbers, and the text within the marks.
local function each_c_comment(lines, found)
   local i = 1
   while i <= #lines do
      local plain = lines[i]:gsub('\\.', ".."):gsub('"[^"]*"', function(s) return ("."):rep(#s) end)
      local at = plain:find("/%*")
      local first = i
      if at then
         local text = { lines[i]:sub(at + 2) }
         while not text[#text]:find("*/", 1, true) and i < #lines do
            i = i + 1
            text[#text + 1] = lines[i]:gsub("^%s*%*%* ?", "")
         end
         text[#text] = text[#text]:gsub("%*/.*", "")
         found(first, i, table.concat(text, "\n"))
      end
      i = i + 1
   end
end

-- Calls found likewise for Lua: adjacent lines that contain only a comment are one comment.
local function each_lua_comment(lines, found)
   local i = 1
   while i <= #lines do
      local text = lines[i]:match "^%s*%-%-%-?(.*)" or lines[i]:match "%s%-%- (.*)"
      local first = i
      if text and not text:find "^%[=*%[" then
         local all = { text }
         while lines[i]:find "^%s*%-%-" and (lines[i + 1] or ""):find "^%s*%-%-" do
            i = i + 1
            all[#all + 1] = lines[i]:match "^%s*%-%-%-?(.*)"
         end
         found(first, i, table.concat(all, "\n"))
      end
      i = i + 1
   end
end

-- Tells whether a comment has prose: two words or more that are not addressed to a tool.
local function has_prose(text)
   if text:find "^%s*clang%-format" or text:find "^%s*luacheck:" then return false end
   local ruler = text:find "^%-+%s" or text:find "^%s*%-%-" or text:find "%-%-%-%-%s*$"
   if ruler then return false end
   local words = 0
   for line in (text .. "\n"):gmatch "([^\n]*)\n" do
      if not line:find "^%s*@" then
         for _ in line:gmatch "%a%a[%w_]*" do words = words + 1 end
      end
   end
   return words > 1
end

local comments = {}
for _, path in ipairs(tracked_files()) do
   local ending = path:match "%.(%w+)$"
   local each = in_c[ending] and each_c_comment or ending == "lua" and each_lua_comment
   if each then
      local lines = lines_of(path)
      each(lines, function(first, last, text)
         if has_prose(text) then
            local code = lines[first]:find "^%s*[/%-]" and lines[last + 1] or lines[first]
            comments[#comments + 1] = { path = path, line = first, text = text, code = code or "" }
         end
      end)
   end
end

math.randomseed(seed)
print(("seed %d: %d of %d comments"):format(seed, math.min(count, #comments), #comments))
for number = 1, math.min(count, #comments) do
   local at = math.random(number, #comments)
   comments[number], comments[at] = comments[at], comments[number]
   local drawn = comments[number]
   print(("\n%d. %s:%d\n%s\n      %s"):format(number, drawn.path, drawn.line,
      drawn.text:gsub("^%s+", ""):gsub("%s+$", ""), drawn.code:gsub("^%s+", "")))
end
