//! The mappings inside of a document, as trees and back.

use super::lenient::FieldErrors;
use super::members::MappingBuilder;
use super::model::{
    CompletedTask, Dimension, FileChanges, QualityReport, ReservationSnapshot, ReservationTransfer,
};
use super::value::YamlValue;

impl CompletedTask {
    pub(super) fn member(
        &mut self,
        e: &mut FieldErrors<'_>,
        name: &str,
        value: YamlValue,
    ) -> Option<YamlValue> {
        match name {
            "task" => self.task = e.text(value),
            "files" => self.files = e.texts(value),
            _ => return Some(value),
        }
        None
    }

    pub(super) fn to_value(&self) -> YamlValue {
        let mut map = MappingBuilder::default();
        map.text("task", &self.task);
        map.texts("files", &self.files);
        map.close(&self.extra)
    }
}

impl FileChanges {
    pub(super) fn member(
        &mut self,
        e: &mut FieldErrors<'_>,
        name: &str,
        value: YamlValue,
    ) -> Option<YamlValue> {
        match name {
            "created" => self.created = e.texts(value),
            "modified" => self.modified = e.texts(value),
            "deleted" => self.deleted = e.texts(value),
            _ => return Some(value),
        }
        None
    }

    pub(super) fn to_value(&self) -> YamlValue {
        let mut map = MappingBuilder::default();
        map.texts("created", &self.created);
        map.texts("modified", &self.modified);
        map.texts("deleted", &self.deleted);
        map.close(&self.extra)
    }
}

impl QualityReport {
    pub(super) fn member(
        &mut self,
        e: &mut FieldErrors<'_>,
        name: &str,
        value: YamlValue,
    ) -> Option<YamlValue> {
        match name {
            "score" => self.score = e.whole(value),
            "status" => self.status = e.text(value),
            "scored_at" => self.scored_at = e.time(value),
            "dimensions" => {
                let items = e.items(value);
                let dimension = |item| e.inside(item, Dimension::member, |d, unknown| d.extra = unknown);
                self.dimensions = items.into_iter().map(dimension).collect();
            }
            "reasons" => self.reasons = e.texts(value),
            "hints" => self.hints = e.texts(value),
            _ => return Some(value),
        }
        None
    }

    /// The report as a tree.
    pub fn to_value(&self) -> YamlValue {
        let mut map = MappingBuilder::default();
        map.plain("score", self.score.to_string());
        map.text("status", &self.status);
        if !self.scored_at.is_empty() {
            map.time("scored_at", &self.scored_at);
        }
        let dimensions = self.dimensions.iter().map(Dimension::to_value);
        map.list("dimensions", dimensions.collect());
        map.texts("reasons", &self.reasons);
        map.texts("hints", &self.hints);
        map.close(&self.extra)
    }
}

impl Dimension {
    pub(super) fn member(
        &mut self,
        e: &mut FieldErrors<'_>,
        name: &str,
        value: YamlValue,
    ) -> Option<YamlValue> {
        match name {
            "name" => self.name = e.text(value),
            "score" => self.score = e.whole(value),
            "reasons" => self.reasons = e.texts(value),
            "hints" => self.hints = e.texts(value),
            _ => return Some(value),
        }
        None
    }

    pub(super) fn to_value(&self) -> YamlValue {
        let mut map = MappingBuilder::default();
        map.text("name", &self.name);
        map.plain("score", self.score.to_string());
        map.texts("reasons", &self.reasons);
        map.texts("hints", &self.hints);
        map.close(&self.extra)
    }
}

impl ReservationTransfer {
    pub(super) fn member(
        &mut self,
        e: &mut FieldErrors<'_>,
        name: &str,
        value: YamlValue,
    ) -> Option<YamlValue> {
        match name {
            "from_agent" => self.from_agent = e.text(value),
            "project_key" => self.project_key = e.text(value),
            "ttl_seconds" => self.ttl_seconds = e.whole(value),
            "grace_period_seconds" => self.grace_period_seconds = e.whole(value),
            "created_at" => self.created_at = e.time(value),
            "reservations" => {
                let items = e.items(value);
                let one = |item| {
                    e.inside(item, ReservationSnapshot::member, |one, unknown| {
                        one.extra = unknown;
                    })
                };
                self.reservations = items.into_iter().map(one).collect();
            }
            _ => return Some(value),
        }
        None
    }

    pub(super) fn to_value(&self) -> YamlValue {
        let mut map = MappingBuilder::default();
        map.text("from_agent", &self.from_agent);
        map.text("project_key", &self.project_key);
        map.number("ttl_seconds", self.ttl_seconds);
        map.number("grace_period_seconds", self.grace_period_seconds);
        if !self.created_at.is_empty() {
            map.time("created_at", &self.created_at);
        }
        let all = self.reservations.iter().map(ReservationSnapshot::to_value);
        map.list("reservations", all.collect());
        map.close(&self.extra)
    }
}

impl ReservationSnapshot {
    pub(super) fn member(
        &mut self,
        e: &mut FieldErrors<'_>,
        name: &str,
        value: YamlValue,
    ) -> Option<YamlValue> {
        match name {
            "path_pattern" => self.path_pattern = e.text(value),
            "exclusive" => self.exclusive = e.flag(value),
            "reason" => self.reason = e.text(value),
            "expires_at" => self.expires_at = e.time(value),
            _ => return Some(value),
        }
        None
    }

    pub(super) fn to_value(&self) -> YamlValue {
        let mut map = MappingBuilder::default();
        map.text("path_pattern", &self.path_pattern);
        map.plain("exclusive", self.exclusive.to_string());
        map.given("reason", &self.reason);
        if !self.expires_at.is_empty() {
            map.time("expires_at", &self.expires_at);
        }
        map.close(&self.extra)
    }
}
