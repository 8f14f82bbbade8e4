-- toys.lua - environments with few states: FrozenLake, Taxi (Dietterich 2000), CliffWalking and
-- Blackjack (Sutton and Barto). Environments on a grid have a function outcomes(state, action),
-- which returns a list of {probability, next state, reward, terminated}.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local Env = require "tlua.rl.Env"
local spaces = require "tlua.rl.spaces"

local M = {}

-- Defines the class of an environment. `signature` declares the options of its constructor.
local function define(name, signature)
   local cls = class.class("rl." .. name, Env)
   local take, names = args.declare(("rl.%s(%s)"):format(name, signature or ""))
   cls.render_mode, cls.option_names = "ansi", names

   -- Stores the options, and sets the spaces to the given numbers of states and actions.
   function cls:begin(states, actions, ...)
      self.action_space = spaces.Discrete(actions)
      self.observation_space = spaces.Discrete(states)
      for option, value in pairs(take(...)) do self[option] = value end
   end

   function cls:observe() return self.state end
   function cls:advance(action)
      local list = self:outcomes(self.state, action)
      local draw = #list > 1 and self:uniform(1, 0, 1)[1] or 0
      local chosen = list[#list]
      for _, outcome in ipairs(list) do
         draw = draw - outcome[1]
         if draw < 0 then
            chosen = outcome
            break
         end
      end
      self.state = chosen[2]
      return chosen[3], chosen[4]
   end
   M[name] = cls
   return cls, take
end

-- Returns a letter with the escape sequences that colour it on a terminal.
local function colored(letter, color) return ("\27[%sm%s\27[0m"):format(color, letter) end

-- FrozenLake --------------------------------------------------------------------------------------

local maps <const> = {
   ["4x4"] = {"SFFF", "FHFH", "FFFH", "HFFG"},
   ["8x8"] = {"SFFFFFFF", "FFFFFFFF", "FFFHFFFF", "FFFFFHFF", "FFFHFFFF", "FHHFFFHF", "FHFFHFHF",
      "FFFHFFFG"},
}

local Lake, take_lake = define("FrozenLake", [[desc: table?, map_name: string = '4x4',
   is_slippery: boolean = true, success_rate: number?, reward_schedule: numbers?]])

local function check_map(desc)
   local starts = 0
   for i, row in ipairs(desc) do
      if type(row) ~= "string" or row:find "[^SFHG]" or #row ~= #desc[1] or #row == 0 then
         torch.raise(("rl.FrozenLake: desc: expected rows of one length with the letters S, F, H "
            .. "and G, got %s at position %d"):format(args.describe(row), i))
      end
      starts = starts + select(2, row:gsub("S", ""))
   end
   if starts == 0 then
      torch.raise "rl.FrozenLake: desc: expected at least one S, where episodes begin, got none"
   end
end

function Lake:__init(...)
   local a = take_lake(...)
   if not a.desc and not maps[a.map_name] then
      args.refuse("rl.FrozenLake", "map_name", "4x4 or 8x8", a.map_name)
   elseif a.success_rate and not (a.success_rate >= 0 and a.success_rate <= 1) then
      args.refuse("rl.FrozenLake", "success_rate", "a number from 0 to 1", a.success_rate)
   elseif a.reward_schedule and #a.reward_schedule ~= 3 then
      args.refuse("rl.FrozenLake", "reward_schedule", "three rewards: of the goal, of a hole, and "
         .. "of the ice", a.reward_schedule)
   end
   a.desc = a.desc or maps[a.map_name]
   check_map(a.desc)
   self:begin(#a.desc * #a.desc[1], 4, a)
   self.success_rate = self.success_rate or 1 / 3
   self.reward_schedule = self.reward_schedule or {1.0, 0.0, 0.0}
end

-- the moves for the actions 1 to 4, {row, column}: left, down, right, up
local lake_moves <const> = {{0, -1}, {1, 0}, {0, 1}, {-1, 0}}

local function letter_at(self, state)
   local width = #self.desc[1]
   local column = (state - 1) % width + 1
   return self.desc[(state - 1) // width + 1]:sub(column, column)
end

function Lake:start()
   local starts = {}
   for state = 1, self.observation_space.n do
      if letter_at(self, state) == "S" then starts[#starts + 1] = state end
   end
   local chosen = #starts > 1 and math.floor(self:uniform(1, 0, #starts)[1]) + 1 or 1
   self.state = starts[chosen]
end

function Lake:outcomes(state, action)
   if letter_at(self, state):find "[GH]" then return {{1.0, state, 0.0, true}} end
   local list, width = {}, #self.desc[1]
   for turn = self.is_slippery and -1 or 0, self.is_slippery and 1 or 0 do
      local move = lake_moves[(action - 1 + turn) % 4 + 1]
      local row = math.max(0, math.min(#self.desc - 1, (state - 1) // width + move[1]))
      local column = math.max(0, math.min(width - 1, (state - 1) % width + move[2]))
      local new = row * width + column + 1
      local letter = letter_at(self, new)
      local chance = not self.is_slippery and 1.0 or turn == 0 and self.success_rate
         or (1 - self.success_rate) / 2
      list[#list + 1] = {chance, new, self.reward_schedule[("GH"):find(letter, 1, true) or 3] + 0.0,
         letter:find "[GH]" ~= nil}
   end
   return list
end

function Lake:render()
   local action = self.last_action
   local lines = {action and ("  (%s)"):format(({"Left", "Down", "Right", "Up"})[action]) or ""}
   local width = #self.desc[1]
   for i, row in ipairs(self.desc) do
      local column = self.state and self.state - (i - 1) * width or 0
      if column >= 1 and column <= width then
         row = row:sub(1, column - 1) .. colored(row:sub(column, column), "41")
            .. row:sub(column + 1)
      end
      lines[#lines + 1] = row
   end
   return table.concat(lines, "\n") .. "\n"
end

-- CliffWalking ------------------------------------------------------------------------------------

local Cliff = define("CliffWalking", "is_slippery: boolean = false")

function Cliff:__init(...) self:begin(48, 4, ...) end

function Cliff:start() self.state = 37 end

-- the moves for the actions 1 to 4, {row, column}: up, right, down, left
local cliff_moves <const> = {{-1, 0}, {0, 1}, {1, 0}, {0, -1}}

function Cliff:outcomes(state, action)
   local list, chance = {}, self.is_slippery and 1 / 3 or 1.0
   for turn = self.is_slippery and -1 or 0, self.is_slippery and 1 or 0 do
      local move = cliff_moves[(action - 1 + turn) % 4 + 1]
      local row = math.max(0, math.min(3, (state - 1) // 12 + move[1]))
      local column = math.max(0, math.min(11, (state - 1) % 12 + move[2]))
      if row == 3 and column > 0 and column < 11 then
         list[#list + 1] = {chance, 37, -100.0, false}
      else
         local new = row * 12 + column + 1
         list[#list + 1] = {chance, new, -1.0, new == 48}
      end
   end
   return list
end

function Cliff:render()
   local lines = {}
   for row = 0, 3 do
      local letters = {}
      for column = 0, 11 do
         local place = row * 12 + column + 1
         letters[column + 1] = place == self.state and "x" or place == 48 and "T"
            or row == 3 and column > 0 and "C" or "o"
      end
      lines[row + 1] = table.concat(letters, "  ") .. "\n"
   end
   return table.concat(lines) .. "\n"
end

-- Taxi --------------------------------------------------------------------------------------------

local Taxi = define "Taxi"

function Taxi:__init(...) self:begin(500, 6, ...) end

local town <const> = {"|R: | : :G|", "| : | : : |", "| : : : : |", "| | : | : |", "|Y| : |B: |"}
local places <const> = {[0] = {0, 0}, {0, 4}, {4, 0}, {4, 3}}

local function place_at(row, column)
   for i = 0, 3 do
      if places[i][1] == row and places[i][2] == column then return i end
   end
end

function Taxi:start()
   repeat
      local draws = self:uniform(4, 0, 1)
      local row, column = math.floor(draws[1] * 5), math.floor(draws[2] * 5)
      local from, to = math.floor(draws[3] * 4), math.floor(draws[4] * 4)
      self.state = ((row * 5 + column) * 5 + from) * 4 + to + 1
   until from ~= to
end

function Taxi:outcomes(state, action)
   local code = state - 1
   local to, from = code % 4, code // 4 % 5
   local column, row = code // 20 % 5, code // 100
   local reward, terminated = -1.0, false
   local line = town[row + 1]
   if action == 1 then row = math.min(row + 1, 4)
   elseif action == 2 then row = math.max(row - 1, 0)
   elseif action == 3 and line:sub(2 * column + 3, 2 * column + 3) == ":" then column = column + 1
   elseif action == 4 and line:sub(2 * column + 1, 2 * column + 1) == ":" then column = column - 1
   elseif action == 5 then
      if from < 4 and place_at(row, column) == from then from = 4 else reward = -10.0 end
   elseif action == 6 then
      local here = place_at(row, column)
      if here == to and from == 4 then
         from, reward, terminated = to, 20.0, true
      elseif here and from == 4 then
         from = here
      else
         reward = -10.0
      end
   end
   return {{1.0, ((row * 5 + column) * 5 + from) * 4 + to + 1, reward, terminated}}
end

function Taxi:render()
   local frame <const> = "+---------+"
   local rows = {}
   for i, line in ipairs(town) do
      rows[i] = {}
      for letter in line:gmatch "." do table.insert(rows[i], letter) end
   end
   local code = (self.state or 1) - 1
   local to, from, column, row = code % 4, code // 4 % 5, code // 20 % 5, code // 100
   local function paint(at_row, at_column, color)
      local line = rows[at_row + 1]
      line[2 * at_column + 2] = colored(line[2 * at_column + 2], color)
   end
   if from < 4 then
      paint(row, column, "43")
      paint(places[from][1], places[from][2], "34;1")
   else
      local line = rows[row + 1]
      if line[2 * column + 2] == " " then line[2 * column + 2] = "_" end
      paint(row, column, "42")
   end
   paint(places[to][1], places[to][2], "35")
   local lines = {frame}
   for i = 1, 5 do lines[i + 1] = table.concat(rows[i]) end
   local names <const> = {"South", "North", "East", "West", "Pickup", "Dropoff"}
   return table.concat(lines, "\n") .. "\n" .. frame .. "\n"
      .. (self.last_action and ("  (%s)\n"):format(names[self.last_action]) or "\n")
end

-- Blackjack ---------------------------------------------------------------------------------------

local Blackjack = class.class("rl.Blackjack", Env)
M.Blackjack = Blackjack

local take_blackjack, blackjack_names = args.declare
   "rl.Blackjack(natural: boolean = false, sab: boolean = false)"
Blackjack.render_mode, Blackjack.option_names = "ansi", blackjack_names

function Blackjack:__init(...)
   local a = take_blackjack(...)
   self.natural, self.sab = a.natural, a.sab
   self.action_space = spaces.Discrete(2) -- action 1 means stick, and action 2 means hit
   self.observation_space = spaces.Box({1, 1, 0}, {31, 10, 1})
end

--- Draws a card and returns its value; a face card counts 10.
function Blackjack:draw()
   return math.min(10, 1 + math.floor(self:uniform(1, 0, 13)[1]))
end

local function has_ace(hand)
   local sum, ace = 0, false
   for _, card in ipairs(hand) do sum, ace = sum + card, ace or card == 1 end
   return ace and sum + 10 <= 21, sum
end

local function value(hand)
   local ace, sum = has_ace(hand)
   return ace and sum + 10 or sum
end

local function is_natural(hand) return #hand == 2 and value(hand) == 21 end

function Blackjack:start()
   local dealer = {self:draw(), self:draw()}
   self.state = {dealer = dealer, player = {self:draw(), self:draw()}}
end

function Blackjack:observe()
   local s = self.state
   return {value(s.player), s.dealer[1], has_ace(s.player) and 1 or 0}
end

function Blackjack:advance(action)
   local player, dealer = self.state.player, self.state.dealer
   if action == 2 then
      player[#player + 1] = self:draw()
      local bust = value(player) > 21
      return bust and -1.0 or 0.0, bust
   end
   while value(dealer) < 17 do dealer[#dealer + 1] = self:draw() end
   if self.sab and is_natural(player) and not is_natural(dealer) then return 1.0, true end
   local mine, other = value(player), value(dealer)
   other = other > 21 and 0 or other
   local reward = mine > other and 1.0 or mine < other and -1.0 or 0.0
   if self.natural and not self.sab and is_natural(player) and reward == 1.0 then reward = 1.5 end
   return reward, true
end

function Blackjack:render()
   if not self.state then return "" end
   local player, dealer = self.state.player, self.state.dealer
   return ("player: %s (%d), dealer: %s\n"):format(table.concat(player, " "), value(player),
      self.running and dealer[1] or ("%s (%d)"):format(table.concat(dealer, " "), value(dealer)))
end

return M
