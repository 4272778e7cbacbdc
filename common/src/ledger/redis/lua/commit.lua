-- Makes the outcomes in a segment final. Returns the mini-batches whose outcome was known already, packed. An index
-- that the complete plan does not have counts as one of these, and sets no bit.
-- ARGV: key and size of the segment; how many mini-batches of it succeeded and failed, how many items they have and
-- how many of these succeeded; the indexes, packed; for each of them (succeeded, items, items that did), packed
local job, ended, segments, segment_keys, tries = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
if redis.call('EXISTS', job) == 0 then return false end

local known = redis.call('HGET', segment_keys, ARGV[1])
if known then
  local segment = redis.call('LINDEX', segments, known)
  segment = segment and cmsgpack.unpack(segment)
  if not segment or segment[1] ~= ARGV[1] then error('the list of segments lacks one that was committed') end
  return cmsgpack.pack(segment[3])
end

-- Lua takes some thousand arguments to a call.
local CHUNK = 1000
local indexes = cmsgpack.unpack(ARGV[7])
local duplicates, duplicates_at = {}, {}
local plan = redis.call('HMGET', job, 'scheduled', 'planned', 'plan_end')
local end_of_plan = tonumber(plan[3] or '0')
if end_of_plan == 0 then end_of_plan = tonumber(plan[2] or '0') == 1 and tonumber(plan[1]) or math.huge end
for first = 1, #indexes, CHUNK do
  local last = math.min(first + CHUNK - 1, #indexes)
  local set, n, set_at = {}, 0, {}
  for at = first, last do
    if indexes[at] < end_of_plan then
      set[n + 1], set[n + 2], set[n + 3], set[n + 4] = 'SET', 'u1', indexes[at], 1
      n, set_at[#set_at + 1] = n + 4, at
    else
      duplicates[#duplicates + 1], duplicates_at[#duplicates_at + 1] = indexes[at], at
    end
  end
  if n > 0 then
    for bit, before in ipairs(redis.call('BITFIELD', ended, unpack(set))) do
      if before == 1 then
        duplicates[#duplicates + 1], duplicates_at[#duplicates_at + 1] = indexes[set_at[bit]], set_at[bit]
      end
    end
  end
end

local known_sums = { 0, 0, 0, 0 }
if #duplicates > 0 then
  local details = cmsgpack.unpack(ARGV[8])
  for _, at in ipairs(duplicates_at) do
    local outcome = details[3 * at - 2] == 1 and 1 or 2
    known_sums[outcome] = known_sums[outcome] + 1
    known_sums[3] = known_sums[3] + details[3 * at - 1]
    known_sums[4] = known_sums[4] + details[3 * at]
  end
end
for at, count in ipairs({ 'succeeded', 'failed', 'items', 'items_succeeded' }) do
  redis.call('HINCRBY', job, count, ARGV[2 + at])
  if known_sums[at] > 0 then redis.call('HINCRBY', job, count, -known_sums[at]) end
end

-- What was noted of mini-batches that did not go through at once is needed no more.
if redis.call('EXISTS', tries) == 1 then
  for first = 1, #indexes, CHUNK do
    redis.call('HDEL', tries, unpack(indexes, first, math.min(first + CHUNK - 1, #indexes)))
  end
end

if #duplicates < #indexes then
  local time = redis.call('TIME')
  redis.call('HSET', job, 'moved_us', string.format('%.0f', tonumber(time[1]) * 1000000 + tonumber(time[2])))
end
local length = redis.call('RPUSH', segments, cmsgpack.pack({ ARGV[1], tonumber(ARGV[2]), duplicates }))
redis.call('HSET', segment_keys, ARGV[1], length - 1)
return cmsgpack.pack(duplicates)
