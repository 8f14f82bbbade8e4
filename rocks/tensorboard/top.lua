-- top.lua - `tlua top FOLDER`: while a training runs, shows in the terminal the curves that
-- SummaryWriters write into a folder. If the output is not a terminal whose cursor can be moved,
-- the program prints a line for each new value of each curve.

local torch = require "tlua"
local io_folder = require "tlua.io.folder"
local reader = require "tlua.tensorboard.reader"

local M = {}

local USAGE <const> = [[
usage: tlua top [options] folder
The curves in the event files below a folder, drawn anew as they grow. Ctrl-C ends it.
  --once           once, and then end
  --every seconds  how often to look (2)
  --filter text    only curves with the text in their name
  --lines n        of a curve's picture (10)
  --plain          a line for each new value instead of pictures
]]

-- Returns the event files below a folder, sorted by path.
local function files_below(path)
   local list = {}
   for _, file in ipairs(io_folder.files_below(path)) do
      if file:match("[^/]*$"):find("tfevents", 1, true) then list[#list + 1] = file end
   end
   return list
end

-- Returns the name of a run: the folder of its event file, relative to the watched folder.
local function run_of(path, folder)
   local place = path:match "^(.*)/[^/]*$" or "."
   place = place:sub(#folder + 1):gsub("^/+", "")
   return place == "" and "." or place
end

--- Watches a folder. In the result, the method `look` returns the points that were written since
--- its previous call. The field `tags` maps each tag to the curves of all runs: {[run] = {x =
--- steps, y = values}}.
---@param folder string
function M.watch(folder)
   folder = folder:gsub("(.)/+$", "%1")
   local self = {tags = {}, names = {}}
   local followers = {}

   local function take(run, event, value, new)
      if not self.tags[value.tag] then
         self.tags[value.tag] = {}
         self.names[#self.names + 1] = value.tag
         table.sort(self.names)
      end
      local runs = self.tags[value.tag]
      local line = runs[run] or {x = {}, y = {}}
      runs[run] = line
      line.x[#line.x + 1], line.y[#line.y + 1] = event.step, value.simple_value
      new[#new + 1] = {run = run, tag = value.tag, step = event.step, value = value.simple_value}
   end

   function self.look()
      local new = {}
      for _, path in ipairs(files_below(folder)) do
         followers[path] = followers[path] or reader.follow(path)
         for _, event in ipairs(followers[path]()) do
            for _, value in ipairs(event.values) do
               if value.tag and value.simple_value then
                  take(run_of(path, folder), event, value, new)
               end
            end
         end
      end
      return new
   end
   return self
end

local function matches(tag, options)
   return not options.filter or tag:find(options.filter, 1, true) ~= nil
end

-- Reduces a curve to at most `most` points, because the terminal has room for no more. The points
-- are split into groups, and the last point of each group is kept.
local function thinned(line, most)
   if #line.x <= most then return line end
   local thin = {x = {}, y = {}}
   for i = 1, most do
      local at = #line.x * i // most
      thin.x[i], thin.y[i] = line.x[at], line.y[at]
   end
   return thin
end

local function latest(runs)
   local list = {}
   for run, line in pairs(runs) do
      list[#list + 1] = ("%s%.6g at %d"):format(run == "." and "" or run .. ": ",
         line.y[#line.y], line.x[#line.x])
   end
   table.sort(list)
   return table.concat(list, ", ")
end

--- Draws the curves of a watched folder as text.
---@param watched table
---@param options {columns: integer, lines: integer, filter?: string, coloured?: boolean}
---@return string
function M.picture(watched, options)
   local parts = {}
   for _, tag in ipairs(watched.names) do
      if matches(tag, options) then
         local runs, lines = watched.tags[tag], {}
         for run, line in pairs(runs) do lines[run] = thinned(line, 4 * options.columns) end
         local alone = next(lines, (next(lines))) == nil
         local figure = torch.utils.plot.curves(alone and select(2, next(lines)) or lines,
            {title = ("%s  (%s)"):format(tag, latest(runs)), columns = options.columns,
             lines = options.lines})
         parts[#parts + 1] = figure:text(options.coloured or false)
      end
   end
   if #parts == 0 then parts[1] = "no curves yet" end
   return table.concat(parts, "\n") .. "\n"
end

-- Formats new points as text. Each curve with new points gets one line, which shows the last of
-- them.
local function lines_of(new, options)
   local last, order = {}, {}
   for _, point in ipairs(new) do
      local key = point.run .. "\0" .. point.tag
      if matches(point.tag, options) then
         if not last[key] then order[#order + 1] = key end
         last[key] = point
      end
   end
   local lines = {}
   for i, key in ipairs(order) do
      local p = last[key]
      lines[i] = ("%s  step %d  %s = %.6g\n"):format(p.run, p.step, p.tag, p.value)
   end
   return table.concat(lines)
end

local function number_after(words, i, least)
   local n = tonumber(words[i + 1])
   if not n or n < least or n ~= n then
      return nil, ("%s: expected a number of at least %g, got %s"):format(words[i], least,
         tostring(words[i + 1] or "nothing"))
   end
   return n
end

-- Parses the arguments of the command. Returns the options, or nil and a message.
local function parse(words)
   local o, i = {every = 2, lines = 10, columns = words.columns}, 1
   while i <= #words do
      local word, message = words[i], nil
      if word == "--once" or word == "--plain" or word == "--help" then
         o[word:sub(3)] = true
      elseif word == "--every" then
         o.every, message = number_after(words, i, 0.05)
         i = i + 1
      elseif word == "--lines" then
         o.lines, message = number_after(words, i, 3)
         o.lines = o.lines and math.floor(o.lines)
         i = i + 1
      elseif word == "--filter" then
         o.filter = words[i + 1]
         message = not o.filter and "--filter: expected a text, got nothing" or nil
         i = i + 1
      elseif word:find "^%-." then
         message = ("unrecognized option '%s'"):format(word)
      elseif o.folder then
         message = "more than one folder"
      else
         o.folder = word
      end
      if message then return nil, message end
      i = i + 1
   end
   if not o.folder and not o.help then return nil, "which folder?" end
   return o
end

local function is_folder(path)
   return torch.io.folder(path) ~= nil
end

local function show(o)
   local terminal = o.columns > 0 and os.getenv "TERM" ~= "dumb"
   local watched = M.watch(o.folder)
   local pictures = not o.plain and (terminal or o.once)
   local options = {columns = math.max(20, (o.columns > 0 and o.columns or 80) - 14),
      lines = o.lines, filter = o.filter, coloured = terminal}
   local before
   repeat
      local new = watched.look()
      local text = pictures and M.picture(watched, options) or lines_of(new, o)
      if pictures and not o.once then
         if text ~= before then io.write("\27[H\27[J", text) end
         before = text
      else
         io.write(text)
      end
      io.flush()
      if not o.once then torch.distributed._sleep(o.every) end
   until o.once
end

--- Runs `tlua top` with the arguments `words`. The field `words.columns` is the number of the
--- terminal's columns, or 0 if there is no terminal.
---@param words string[]
---@return boolean  whether the command succeeded
function M._top(words)
   local o, message = parse(words)
   if not o then
      io.stderr:write("tlua top: ", message, "\n", USAGE)
      return false
   elseif o.help then
      io.write(USAGE)
      return true
   elseif not is_folder(o.folder) then
      io.stderr:write(("tlua top: %s: no folder\n"):format(o.folder))
      return false
   end
   local ok, problem = pcall(show, o)
   if ok or tostring(problem):find "interrupted" then return true end
   error(problem, 0)
end

return M
